/**
 * What an audit will cost, before it begins: passes are counted from the request, and two short passes of the loaded
 * target say how fast this machine is. An estimate, and called so: candidates that do not survive as text are not
 * scored, and answers may be shorter than they are allowed to be.
 */
import type { Target } from '../decode/target.js';
import { countParameters } from '../draft/reading/checks.js';
import { levelsOf } from '../draft/tree/grow-tree.js';
import type { AuditRequest } from './audit-request.js';
import type { LoadedDrafter } from './beyond-one-prompt.js';
import { armKeys } from './drafter-units.js';
import type { MemoryEstimate } from './memory-estimate.js';
import { estimateMemory } from './memory-estimate.js';

export interface Effort extends MemoryEstimate {
  readonly searches: number;
  readonly scoredCandidates: number;
  readonly decodedAnswers: number;
  readonly expectedMs: number;
}

const directed: readonly string[] = ['attack', 'unprojected', 'preservation-only'];
const searched: readonly string[] = [...directed, 'undirected'];
/** Steps that gain something, after which the gradient is new. */
const gainingShare = 0.6;
/** Gradients of both losses, in passes forward over as many rows: two backward passes of two products each. */
const gradientPasses = 6;
const probedRows = 96;
const probes = 5;

export async function estimateEffort(
  request: AuditRequest,
  target: Target,
  drafters: readonly LoadedDrafter[],
): Promise<Effort> {
  const { settings } = request;
  const pace = await measurePace(target);
  const { steps, candidates, starts, finalists, suffixLength, window, maxNewTokens } = settings;
  const perSearch = starts + steps * candidates;
  const total = { searches: 0, scoredCandidates: 0, decodedAnswers: 0, expectedMs: 0 };
  for (const { id, drafter, policy } of drafters) {
    const keys = request.prompts.flatMap((prompt) => armKeys(request, id, prompt.id));
    const searches = keys.filter(({ arm }) => searched.includes(arm)).length;
    const gradients =
      gainingShare *
      steps *
      (settings.search === 'random' ? 0 : keys.filter(({ arm }) => directed.includes(arm)).length);
    // Each arm is decoded held and freely, some plainly too; each search decodes its finalists.
    const answers = 2.5 * keys.length + 2 * finalists * searches;
    const share = 1 + (levelsOf(policy) * drafter.parameterCount) / countParameters(target.model.weights);
    const candidateMs = (suffixLength / 2 + window) * pace.rowMs * share;
    const gradientMs = gradientPasses * (suffixLength + window) * pace.rowMs * share;
    total.searches += searches;
    total.scoredCandidates += searches * perSearch;
    total.decodedAnswers += Math.round(answers);
    total.expectedMs +=
      searches * perSearch * candidateMs + gradients * gradientMs + answers * maxNewTokens * pace.tokenMs;
  }
  const memory = estimateMemory({
    target: target.model,
    drafters: drafters.map(({ drafter, policy }) => ({ drafter, levels: levelsOf(policy) })),
    search: total.searches > 0 ? settings : undefined,
  });
  return { ...total, ...memory };
}

interface Pace {
  /** A row of a pass over many. */
  readonly rowMs: number;
  /** A pass over one row. */
  readonly tokenMs: number;
}

async function measurePace({ model }: Target): Promise<Pace> {
  await model.prepare();
  const time = async (rows: number): Promise<number> => {
    const tokens = new Int32Array(rows).fill(1);
    const cache = model.createCache();
    let bestMs = Infinity;
    // The best of several: on a busy machine a single pass says little.
    for (let run = 0; run < probes; run++) {
      const startMs = performance.now();
      await model.forward({ tokens, cache, want: ['argmax'] });
      bestMs = Math.min(bestMs, performance.now() - startMs);
    }
    return bestMs;
  };
  const rows = Math.min(probedRows, model.configuration.contextLength);
  const [many, one] = [await time(rows), await time(1)];
  return { rowMs: many / rows, tokenMs: one };
}
