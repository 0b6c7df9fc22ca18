// Where the rows of a long list are, of which only those in sight are drawn: a guess for each until it was measured.
// Sums are kept in a tree (Fenwick's), so that ten thousand rows are found in fourteen steps.

export class Heights {
  private readonly guess: number;
  private sizes: number[] = [];
  private tree: number[] = [0];

  constructor(guess: number) {
    this.guess = guess;
  }

  get count(): number {
    return this.sizes.length;
  }

  get total(): number {
    return this.offset(this.sizes.length);
  }

  /** Has so many rows from now on; those that stay keep their height. */
  resize(count: number): void {
    if (count < this.sizes.length) {
      this.sizes.length = count;
      this.tree.length = count + 1;
      return;
    }
    for (let index = this.sizes.length; index < count; index++) {
      this.sizes.push(this.guess);
      const node = index + 1;
      // A node holds the sum of the rows below it: those before are there already.
      let sum = this.guess;
      for (let child = node - 1, stop = node - (node & -node); child > stop; child -= child & -child) {
        sum += this.tree[child] ?? 0;
      }
      this.tree.push(sum);
    }
  }

  /** Sets a measured height; says by how much the row has grown. */
  set(index: number, height: number): number {
    const grown = height - (this.sizes[index] ?? height);
    if (grown === 0) return 0;
    this.sizes[index] = height;
    for (let node = index + 1; node < this.tree.length; node += node & -node) {
      this.tree[node] = (this.tree[node] ?? 0) + grown;
    }
    return grown;
  }

  /** Where a row begins. */
  offset(index: number): number {
    let sum = 0;
    for (let node = Math.min(index, this.sizes.length); node > 0; node -= node & -node) sum += this.tree[node] ?? 0;
    return sum;
  }

  /** The row that is at this place; the first or the last where it is outside. */
  indexAt(place: number): number {
    let node = 0;
    let rest = place;
    for (let step = highestBit(this.sizes.length); step > 0; step >>= 1) {
      const next = node + step;
      const sum = this.tree[next];
      if (next <= this.sizes.length && sum !== undefined && sum <= rest) {
        node = next;
        rest -= sum;
      }
    }
    return Math.min(node, Math.max(0, this.sizes.length - 1));
  }
}

function highestBit(count: number): number {
  let bit = 1;
  while (bit * 2 <= count) bit *= 2;
  return count ? bit : 0;
}
