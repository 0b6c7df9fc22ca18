// What a tool call is about, in one text: its command or its path, else all of its input.

const SUBJECTS = ["command", "file_path", "path", "filePath", "notebook_path", "url", "query", "pattern"];

export function subjectOf(input: unknown): string {
  if (input === null || input === undefined) return "";
  if (typeof input === "string") return input;
  if (typeof input !== "object") return String(input);
  const fields = input as Record<string, unknown>;
  for (const name of SUBJECTS) {
    const value = fields[name];
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value) && value.length && value.every((each) => typeof each === "string")) return value.join(" ");
  }
  const text = JSON.stringify(input);
  return text === "{}" || text === "[]" ? "" : text;
}
