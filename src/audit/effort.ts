/**
 * Estimates an audit's cost: passes are counted from the request, and two short passes of the target measure this
 * machine. Candidates that do not survive are not scored and answers may be shorter, so it is an upper estimate.
 */
import type { Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { countParameters } from '../draft/reading/checks.js';
import { matmul } from '../graph/operations/contraction.js';
import { input, weight } from '../graph/tensor.js';
import type { CausalModel } from '../model/causal-model.js';
import { mlpWidthPerToken } from '../model/experts.js';
import { defaultPackedWeightLimit } from '../runtime/onnx/onnx-runtime.js';
import { float32, type Runtime } from '../runtime/program.js';
import type { FileWeights, MemoryWeights, WeightStore } from '../runtime/weights.js';
import { armKeys } from './arms/drafter-units.js';
import type { ArmKey } from './arms/measure-arm.js';
import type { LoadedDrafter } from './arms/drafter-audit.js';
import type { AuditRequest } from './audit-request.js';
import { isSearched } from './result.js';
import { rowsPerBatch } from './search/pass-rows.js';
import type { AuditSettings } from './settings.js';

/**
 * Memory of an audit: of the process itself, and weights mapped from the cache, which programs share and the system
 * may drop. Measured audits were within a third of it.
 */
interface MemoryEstimate {
  readonly memoryBytes: number;
  readonly mappedBytes: number;
}

export interface MemoryUsers {
  readonly target: Pick<CausalModel, 'weights' | 'configuration'>;
  readonly drafters: readonly DrafterMemory[];
  /** Undefined if nothing is searched. */
  readonly search: SearchSizes | undefined;
}

interface DrafterMemory {
  readonly drafter: Pick<Drafter, 'graph' | 'taps' | 'parameterCount'>;
  readonly levels: number;
}

export type SearchSizes = Pick<AuditSettings, 'search' | 'candidates' | 'starts' | 'suffixLength' | 'window'>;

const floatBytes = 4;
/** Node, ONNX Runtime, tokenizers, and garbage. */
const processBytes = 128 * 2 ** 20;
const programsPerDrafter = 2;
/** Vocabulary-wide tensors of the target in a scoring pass; each level adds one. */
const targetScores = 3;
/** Values kept for a backward pass per row and layer, in multiples of the hidden and the MLP size. */
const keptWidths = { hidden: 8, inner: 4 };
const directions = 2;

export function estimateMemory({ target, drafters, search }: MemoryUsers): MemoryEstimate {
  const total = { memoryBytes: processBytes, mappedBytes: 0 };
  const add = (store: WeightStore, programs: number): void => {
    // These weights go to the device.
    if (store.kind === 'checkpoint') return;
    const plainBytes = countBytes(store);
    const packedBytes = floatBytes * countProducts(store);
    total[store.kind === 'file' ? 'mappedBytes' : 'memoryBytes'] += plainBytes;
    // Packed copies of larger models are in the cache.
    if (packedBytes <= defaultPackedWeightLimit) total.memoryBytes += programs * packedBytes;
    else if (store.kind === 'file') total.mappedBytes += packedBytes;
  };
  // Passes with taps are another program.
  add(target.weights, drafters.some(({ drafter }) => drafter.taps.length > 0) ? 2 : 1);
  for (const { drafter } of drafters) {
    const own = (drafter.graph?.weights ?? []).filter((store) => store !== target.weights);
    for (const store of own) add(store, programsPerDrafter);
  }
  if (search !== undefined) total.memoryBytes += estimateSearch(target, drafters, search);
  return total;
}

function countBytes(store: FileWeights | MemoryWeights): number {
  if (store.kind === 'memory') return floatBytes * countParameters(store);
  let bytes = 0;
  for (const { sizeBytes } of store.tensors.values()) bytes += sizeBytes;
  return bytes;
}

/** Look-up tables count too; they are the smaller part. Experts are not packed. */
function countProducts({ tensors }: WeightStore): number {
  let count = 0;
  for (const [name, { shape }] of tensors)
    if (shape.length > 1 && !name.includes('.mlp.experts.'))
      count += shape.reduce((product, size) => product * size, 1);
  return count;
}

/** Drafters are searched one after the other and free what they used. */
function estimateSearch(
  { configuration, weights }: MemoryUsers['target'],
  drafters: readonly DrafterMemory[],
  { search, candidates, starts, suffixLength, window }: SearchSizes,
): number {
  const { vocabularySize, hiddenSize, layerCount } = configuration;
  const rowsOfOne = suffixLength + window;
  const rows = Math.min(rowsPerBatch, Math.max(candidates, starts) * rowsOfOne);
  const layerWidth = keptWidths.hidden * hiddenSize + keptWidths.inner * mlpWidthPerToken(configuration);
  const needs = drafters.map(({ drafter, levels }) => {
    const wide = vocabularySize * (targetScores + (drafter.graph === undefined ? 0 : levels));
    const share = 1 + (levels * drafter.parameterCount) / countParameters(weights);
    const kept = search === 'random' ? 0 : directions * rowsOfOne * (wide + layerCount * layerWidth * share);
    return floatBytes * (rows * wide + kept);
  });
  return Math.max(0, ...needs);
}

export interface SearchEffort {
  readonly searches: number;
  readonly scoredCandidates: number;
  readonly decodedAnswers: number;
  readonly expectedMs: number;
}

export interface Effort extends SearchEffort, MemoryEstimate {}

const directed: readonly string[] = ['attack', 'unprojected', 'preservation-only'];
/** Share of steps that gain, after which the gradient is new. */
const gainingShare = 0.6;
/** Two backward passes of two products each, in forward passes. */
const gradientPasses = 6;
const probedRows = 96;
const probes = 5;

export async function estimateEffort(
  request: AuditRequest,
  target: Target,
  drafters: readonly LoadedDrafter[],
): Promise<Effort> {
  const { settings } = request;
  const counted = drafters.map(({ id, drafter, draftLevels }) => ({
    keys: request.prompts.flatMap((prompt) => armKeys(request, id, prompt.id)),
    share: 1 + (draftLevels * drafter.parameterCount) / countParameters(target.model.weights),
  }));
  const total = countEffort(settings, await measurePace(target), counted);
  const memory = estimateMemory({
    target: target.model,
    drafters: drafters.map(({ drafter, draftLevels: levels }) => ({ drafter, levels })),
    search: total.searches > 0 ? settings : undefined,
  });
  return { ...total, ...memory };
}

interface CountedDrafter {
  readonly keys: readonly ArmKey[];
  /** Cost of a row of target and drafts, over that of the target alone. */
  readonly share: number;
}

export function countEffort(
  settings: AuditSettings,
  pace: Pace,
  drafters: readonly CountedDrafter[],
): SearchEffort {
  const { steps, candidates, starts, finalists, suffixLength, window, maxNewTokens } = settings;
  const perSearch = starts + steps * candidates;
  const total = { searches: 0, scoredCandidates: 0, decodedAnswers: 0, expectedMs: 0 };
  for (const { keys, share } of drafters) {
    const searches = keys.filter(({ arm }) => isSearched(arm)).length;
    const gradients =
      gainingShare *
      steps *
      (settings.search === 'random' ? 0 : keys.filter(({ arm }) => directed.includes(arm)).length);
    // Each arm is decoded held and freely, some also plainly; each search decodes its finalists.
    const answers = 2.5 * keys.length + 2 * finalists * searches;
    const candidateMs = (suffixLength / 2 + window) * pace.rowMs * share;
    const gradientMs = gradientPasses * (suffixLength + window) * pace.rowMs * share;
    total.searches += searches;
    total.scoredCandidates += searches * perSearch;
    total.decodedAnswers += Math.round(answers);
    total.expectedMs +=
      searches * perSearch * candidateMs + gradients * gradientMs + answers * maxNewTokens * pace.tokenMs;
  }
  return total;
}

export interface Pace {
  /** Of a pass over many rows, for each. */
  readonly rowMs: number;
  readonly tokenMs: number;
}

async function measurePace({ model }: Target): Promise<Pace> {
  await model.prepare();
  const time = async (rows: number): Promise<number> => {
    const tokens = new Int32Array(rows).fill(1);
    const cache = model.createCache();
    try {
      return await bestTime(async () => {
        (await model.forward({ tokens, cache, want: ['argmax'] })).rows.free();
      });
    } finally {
      cache.release();
    }
  };
  const rows = Math.min(probedRows, model.configuration.contextLength);
  const [many, one] = [await time(rows), await time(1)];
  return { rowMs: many / rows, tokenMs: one };
}

/** The best of several, in milliseconds: the machine may be busy. */
async function bestTime(run: () => Promise<unknown>): Promise<number> {
  let bestMs = Infinity;
  for (let probe = 0; probe < probes; probe++) {
    const startMs = performance.now();
    await run();
    bestMs = Math.min(bestMs, performance.now() - startMs);
  }
  return bestMs;
}

// The effort of an audit whose models are not on this machine yet, from their sizes and the time of matrix products on
// its device. Attention, transfers and small operations are not counted.
interface UnseenAudit {
  readonly settings: AuditSettings;
  readonly prompts: number;
  /** Parameters. */
  readonly target: number;
  /** [drafter] Parameters. */
  readonly drafters: readonly number[];
}

/** Of the default policy. */
const levels = 4;

export async function predictEffort(runtime: Runtime, unseen: UnseenAudit): Promise<SearchEffort> {
  const { settings, prompts, target, drafters } = unseen;
  const keys = armKeys({ settings, suffixes: [] }, '', '');
  const pace = await predictPace(runtime, target);
  const counted = drafters.map((parameters) => ({
    keys: Array.from({ length: prompts }, () => keys).flat(),
    share: 1 + (levels * parameters) / target,
  }));
  return countEffort(settings, pace, counted);
}

/** Larger than the caches of a device, as weights are. */
const sizes = { onnx: 2048, cuda: 8192 } as const;
const products = 8;

/** One product after the other in one program, so that starting it costs little. */
async function predictPace(runtime: Runtime, parameters: number): Promise<Pace> {
  const size = runtime.name === 'cuda' ? sizes.cuda : sizes.onnx;
  const data = new Float32Array(size * size).fill(1 / size);
  const weights: MemoryWeights = { kind: 'memory', tensors: new Map([['w', { shape: [size, size], data }]]) };
  const time = async (rows: number): Promise<number> => {
    let y = input('x', [rows, size]);
    for (let product = 0; product < products; product++) y = matmul(y, weight('w', [size, size]));
    const program = await runtime.compile({ y }, [weights]);
    const inputs = { x: float32(new Float32Array(rows * size).fill(1), [rows, size]) };
    try {
      return (await bestTime(() => program.run(inputs))) / products;
    } finally {
      await program.dispose();
    }
  };
  const scale = parameters / size ** 2;
  return { rowMs: ((await time(probedRows)) / probedRows) * scale, tokenMs: (await time(1)) * scale };
}
