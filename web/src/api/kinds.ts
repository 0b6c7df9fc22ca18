// Every kind of event that this page knows. A stream names its events by kind, and a browser hears only names that it was
// told; of one that is missing here, the gap in the numbers is seen, and filled by a page of events.

export const KINDS = [
  "run_started", "thread_started", "turn_started", "turn_completed", "turn_failed", "turn_interrupted", "message_sent",
  "message_started", "message_ended", "session_configured", "channel_changed", "text_said", "text_delta", "answer_given",
  "citations_given", "reasoning_said", "tool_started", "tool_output", "tool_completed", "tool_failed", "command_executed",
  "file_changed", "plan_changed", "permission_asked", "permission_answered", "question_asked", "question_answered",
  "tool_requested", "tool_answered", "hook_called", "hook_answered", "mcp_server_failed", "usage_reported",
  "model_call_ended", "budget_refused", "usage_differs", "rate_limited", "worktree_left", "attempt_started",
  "attempt_ended", "check_started", "check_ended", "verifier_started", "verdict_given", "wait_started", "node_started",
  "node_output", "node_ended", "watchdog_acted", "error_reported", "unrecognized", "ending_began", "run_ended",
] as const;

/** What changes a line in the list of runs. */
export const LIST_KINDS = [
  "run_started", "thread_started", "message_sent", "message_started", "message_ended", "tool_started", "permission_asked",
  "permission_answered", "question_asked", "question_answered", "rate_limited", "watchdog_acted", "attempt_started",
  "attempt_ended", "node_started", "node_ended", "run_ended",
] as const;
