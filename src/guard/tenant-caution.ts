/**
 * How much more evidence than usual a single request of a tenant needs. The promise of the alarm is about requests like those of the baseline;
 * a tenant that asks one hard question over and over would ring with every one of them. So every ring of a tenant's
 * request multiplies what its next ones need, and every silent one takes a little of that back, as the threshold of a
 * whole stream does (sensitivity.ts). Whatever a tenant sends,
 *
 *   rings  <=  rate x requests  +  mostLog / step  +  rings with e^(mostLog - step) times what rings without caution
 *
 * Caution changes what rings and nothing else: what it keeps silent is not learnt from (monitor.ts), its evidence counts in the tests of the
 * tenant and of everybody, and a tenant that rings as a tenant loses it. It is bounded, so that no number of rings
 * makes a real collapse silent.
 */
import { RecentMap } from './recent-map.js';

/** A ring multiplies the evidence that is needed by e to the power of this. */
const step = 3;
export const mostLog = 6;

export class TenantCaution {
  private logs: RecentMap<number>;

  constructor(
    private readonly rate: number,
    private readonly limit: number,
  ) {
    this.logs = new RecentMap(limit);
  }

  /** What the evidence of this tenant's requests is divided by. */
  factor(tenant: string): number {
    return Math.exp(this.logs.peek(tenant) ?? 0);
  }

  learn(tenant: string, hasRung: boolean): void {
    const before = this.logs.peek(tenant) ?? 0;
    if (before === 0 && !hasRung) return;
    const log = Math.min(mostLog, before + step * (Number(hasRung) - this.rate));
    if (log > 0) this.logs.set(tenant, log);
    else this.logs.delete(tenant);
  }

  /** The tenant itself rang. */
  forget(tenant: string): void {
    this.logs.delete(tenant);
  }

  save(): readonly (readonly [string, number])[] {
    return [...this.logs.entries()];
  }

  restore(saved: readonly (readonly [string, number])[]): void {
    this.logs = new RecentMap(this.limit);
    for (const [tenant, log] of saved) this.logs.set(tenant, log);
  }
}
