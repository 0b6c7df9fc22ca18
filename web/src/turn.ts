// Of several tabs one at a time: the one that was looked at last. A browser opens only six connections to a server, which
// are all taken once six tabs hold a stream each: whatever is asked then waits without a word.
export class Turn {
  private readonly channel: BroadcastChannel;
  private readonly onChange: (isMine: boolean) => void;

  /** Tells whether it is this tab's turn, whenever that changes. */
  constructor(name: string, onChange: (isMine: boolean) => void) {
    this.onChange = onChange;
    this.channel = new BroadcastChannel(name);
    this.channel.addEventListener("message", () => onChange(false));
    window.addEventListener("focus", this.take);
    document.addEventListener("visibilitychange", this.take);
    this.take();
  }

  stop(): void {
    this.channel.close();
    window.removeEventListener("focus", this.take);
    document.removeEventListener("visibilitychange", this.take);
  }

  private take = (): void => {
    if (document.hidden) return;
    this.channel.postMessage("taken");
    this.onChange(true);
  };
}
