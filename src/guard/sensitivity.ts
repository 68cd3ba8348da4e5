/**
 * How much evidence rings. Ville's bound holds for any traffic that keeps to the floors, and real traffic mostly lies far
 * above them: of the false alarms that the operator allows hardly any ever come, and attacks are found later than they
 * could be. So beside the strict test a sharp one runs, against floors under a larger part of benign requests, with a threshold
 * that moves with what is seen, as in adaptive conformal inference (Gibbs and Candes, arXiv 2106.00170): each judged
 * request that stays silent lowers its logarithm by `rate`, each that rings, by either test, raises it by 1 - rate.
 * It begins high, and whatever the traffic does,
 *
 *   rings  <=  rate x requests  +  rings of the strict test  +  6
 *
 * since every other ring was paid for by silent requests before it, but for what the way from where it begins to its cap is
 * worth; at the cap and under siege (below) rings are not counted. An attack that rings without end can raise the
 * threshold until the sharp test is deaf; the strict one remains as it was. The threshold never falls below
 * `leastEvidence`: a request rings on evidence, not on the patience of others. Requests of tenants that rang lately move nothing.
 *
 * Where more than a tenth of what is left are flagged, the stream is under siege: neither the threshold nor the
 * baseline moves until that has passed, so that even an attacker with a new name for each request teaches nothing. Below a tenth,
 * such an attacker cannot be told from text that became harder, and is learnt in the end.
 */
import { RecentMap } from './recent-map.js';

export const leastEvidence = 5;
/** Logarithms: above the first nothing rings in practice, and from the second the threshold begins to fall. */
const mostLog = 12;
const firstLog = 6;

export interface Standing {
  /** Of the threshold. */
  log: number;
  /** Share of flagged requests, a decaying mean. */
  flagged: number;
  isBesieged: boolean;
}

const siegeBegins = 0.1;
const siegeEnds = 0.05;
const shareDecay = 0.98;

export class Sensitivity {
  private populations = new RecentMap<Standing>(mostPopulations);

  constructor(private readonly rate: number) {}

  threshold(population: string): number {
    return Math.exp(this.populations.peek(population)?.log ?? firstLog);
  }

  isBesieged(population: string): boolean {
    return this.populations.peek(population)?.isBesieged ?? false;
  }

  /** `isFlagged`: it rang, or came so near that nothing is learnt from it. */
  learn(population: string, hasRung: boolean, isFlagged: boolean): void {
    const standing = this.populations.getOrCreate(population, () => ({
      ...{ log: firstLog, flagged: 0, isBesieged: false },
    }));
    standing.flagged += (1 - shareDecay) * (Number(isFlagged) - standing.flagged);
    standing.isBesieged = standing.flagged > (standing.isBesieged ? siegeEnds : siegeBegins);
    if (standing.isBesieged) return;
    const log = standing.log + Number(hasRung) - this.rate;
    standing.log = Math.min(mostLog, Math.max(Math.log(leastEvidence), log));
  }

  forget(): void {
    this.populations = new RecentMap(mostPopulations);
  }

  save(): readonly (readonly [string, Readonly<Standing>])[] {
    return [...this.populations.entries()].map(([population, standing]) => [population, { ...standing }]);
  }

  restore(saved: readonly (readonly [string, Readonly<Standing>])[]): void {
    this.forget();
    for (const [population, standing] of saved) this.populations.set(population, { ...standing });
  }
}

const mostPopulations = 256;
