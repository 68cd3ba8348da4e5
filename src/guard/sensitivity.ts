/**
 * How much evidence rings. Ville's bound holds for any traffic that keeps to the floors, and real traffic mostly lies far
 * above them: of the false alarms that the operator allows hardly any ever come, and attacks are found later than they
 * could be. So beside the strict test a sharp one runs, against floors under a larger part of benign requests, with a threshold
 * that moves with what is seen, as in adaptive conformal inference (Gibbs and Candes, arXiv 2106.00170): each judged
 * request that stays silent lowers its logarithm by `rate`, each that rings, by either test, raises it by 1 - rate.
 * It begins high, and whatever the traffic does,
 *
 *   rings  <=  rate x requests  +  rings of the strict test
 *
 * since every other ring was paid for by silent requests before it. An attack that rings without end can raise the
 * threshold until the sharp test is deaf; the strict one remains as it was. The threshold never falls below
 * `leastEvidence`: a request rings on evidence, not on the patience of others. Requests of tenants that rang lately move nothing.
 */
import { RecentMap } from './recent-map.js';

export const leastEvidence = 5;
/** Logarithms: above the first nothing rings in practice, and from the second the threshold begins to fall. */
const mostLog = 12;
const firstLog = 6;

export class Sensitivity {
  /** [population] logarithm of the threshold. */
  private logs = new RecentMap<number>(mostPopulations);

  constructor(private readonly rate: number) {}

  threshold(population: string): number {
    return Math.exp(this.logs.peek(population) ?? firstLog);
  }

  learn(population: string, hasRung: boolean): void {
    const log = (this.logs.get(population) ?? firstLog) + Number(hasRung) - this.rate;
    this.logs.set(population, Math.min(mostLog, Math.max(Math.log(leastEvidence), log)));
  }

  forget(): void {
    this.logs = new RecentMap(mostPopulations);
  }

  save(): readonly (readonly [string, number])[] {
    return [...this.logs.entries()];
  }

  restore(saved: readonly (readonly [string, number])[]): void {
    this.forget();
    for (const [population, log] of saved) this.logs.set(population, log);
  }
}

const mostPopulations = 256;
