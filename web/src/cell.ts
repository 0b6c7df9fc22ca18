// A value that parts of the page look at: whoever uses it is drawn anew when it changes, and nobody else.
import { Component, type ComponentChild, type ComponentType, h } from "preact";
import { useEffect, useReducer } from "preact/hooks";

export class Cell<T> {
  private listeners = new Set<() => void>();
  private current: T;

  constructor(first: T) {
    this.current = first;
  }

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    this.tell();
  }

  /** Tells everybody of a value that was changed in place. */
  tell(): void {
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const seen = cell.value;
    const stop = cell.listen(() => redraw(undefined as never));
    if (cell.value !== seen) redraw(undefined as never);
    return stop;
  }, [cell]);
  return cell.value;
}

/** Draws a part again only where one of its properties is another one. */
export function memo<P extends object>(draw: (props: P) => ComponentChild): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const now = this.props as Record<string, unknown>;
      const then = next as Record<string, unknown>;
      return Object.keys({ ...now, ...then }).some((name) => !Object.is(now[name], then[name]));
    }
    override render(): ComponentChild {
      return h(draw as ComponentType<P>, this.props as P & { key?: never });
    }
  } as unknown as ComponentType<P>;
}
