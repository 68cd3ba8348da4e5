/**
 * Speculative decoding: the drafter proposes a tree behind the last token, the target reads the whole tree in one pass,
 * verification keeps a path of it and adds one token of the target's own. Nothing here knows how a drafter works.
 */
import { describeCause, MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import type { Drafter, DraftSession } from '../draft/drafter.js';
import { isGrownAtOnce } from '../draft/dynamic-tree.js';
import { growTree } from '../draft/grow-tree.js';
import { chainTree } from '../draft/token-tree.js';
import type { CausalModel } from '../model/causal-model.js';
import type { ForwardOutput, ForwardResult } from '../model/forward.js';
import type { KvCache } from '../model/kv-cache.js';
import { pickRows } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { AcceptanceRecord, StepRecord } from './acceptance.js';
import { summariseAcceptance } from './acceptance.js';
import type { TokenOrigin } from './answer.js';
import { Answer } from './answer.js';
import { countPasses } from './counted-session.js';
import type { Guarding } from './guarding.js';
import type { Generation, GenerationRequest } from './plain.js';
import { createChooser, finishGeneration } from './plain.js';
import type { PolicyChooser, StepOutcome } from './policy-chooser.js';
import { prefill } from './prefill.js';
import { placeScores } from './score-place.js';
import { createLikelihoodReader } from './token-likelihood.js';
import type { VerificationRule } from './verification.js';
import { checkRule, createHeldVerifier, createVerifier } from './verifier.js';

export interface SpeculativeRequest extends GenerationRequest {
  readonly policy: PolicyChooser;
  /** `greedy` at temperature 0 and `rejection` above it, unless told otherwise. */
  readonly rule?: VerificationRule;
  /**
   * Holds the answer to these tokens, whatever the target would say: the drafter drafts and is judged along them. Above
   * temperature 0 a chain is drafted along them, too. `maxNewTokens` and stop tokens do not count then.
   */
  readonly held?: readonly number[] | undefined;
  /** A drafter that fails fails the request: for callers that measure drafts, to which an answer without them is none. */
  readonly mustDraft?: boolean;
  /** Told once when the drafter fails and the request goes on without it. */
  readonly onNotice?: (message: string) => void;
  /** Hears of every step before its tokens. */
  readonly onStep?: (step: StepRecord) => void;
  /** What the passes took that it has had a part in, where others may run beside it (engine.ts). */
  readonly passes?: { readonly ms: number } | undefined;
}

export interface SpeculativeGeneration extends Generation {
  readonly acceptance: AcceptanceRecord;
  readonly rule: VerificationRule;
  readonly steps: readonly StepOutcome[];
  readonly targetPasses: number;
  readonly drafterPasses: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  /** decodeMs without the two: verification rules, bookkeeping, streaming. */
  readonly overheadMs: number;
  readonly drafterFailed: boolean;
  /** Where drafts were guarded (guarded-drafting.ts). */
  readonly guarding?: Guarding;
}

export async function decodeSpeculative(
  model: CausalModel,
  drafter: Drafter,
  request: SpeculativeRequest,
): Promise<SpeculativeGeneration> {
  const cache = request.prefix?.cache.fork() ?? model.createCache();
  const session = drafter.startSession(request.meeting);
  try {
    return await speculate(model, drafter, request, { cache, session });
  } finally {
    session.close();
    cache.release();
  }
}

interface SequenceState {
  readonly cache: KvCache;
  readonly session: DraftSession;
}

async function speculate(
  model: CausalModel,
  drafter: Drafter,
  request: SpeculativeRequest,
  { cache, session: started }: SequenceState,
): Promise<SpeculativeGeneration> {
  const { promptIds, sampling, policy, seed, held, meeting, signal, passes } = request;
  const rule = request.rule ?? (sampling.temperature === 0 ? 'greedy' : 'rejection');
  checkRule(rule, sampling);
  const { contextLength, vocabularySize } = model.configuration;
  const reads: readonly ForwardOutput[] = drafter.reads === 'tokens' ? [] : [drafter.reads];
  const kept = placeScores(model, request);
  const chooser = createChooser(sampling, createRandom(seed, 'decode'), kept);
  const judging = createRandom(seed, 'verify');
  const verify =
    held === undefined
      ? createVerifier(rule, sampling, judging, kept)
      : createHeldVerifier(held, sampling, judging);
  const likelihoods = createLikelihoodReader(request.topLikelihoods, vocabularySize);
  const wantWith = (scores: ForwardOutput) => [...new Set([scores, ...likelihoods.want, ...reads])];
  const random = createRandom(seed, 'draft');
  const limits = held === undefined ? {} : { maxNewTokens: held.length, stopIds: [], stopStrings: [] };
  const answer = new Answer(promptIds, { ...request, ...limits });
  const steps: StepOutcome[] = [];
  const { taps } = drafter;
  const counted = countPasses(started, drafter);
  let session: DraftSession | undefined = counted.session;
  let targetPasses = 0;
  const isGreedy = sampling.temperature === 0;
  const drafts = {
    chains: isGreedy ? policy.chainLengths : [],
    drawnChains: isGreedy ? [] : policy.chainLengths,
    trees: policy.trees?.filter(isGrownAtOnce),
  };
  await Promise.all([model.prepare(taps), kept?.draws.prepare(), drafter.prepare(drafts)]);

  const startMs = performance.now();
  let root = 0;
  let readCount = cache.length;
  if (request.prefix !== undefined) session.observe({ ...request.prefix, next: promptIds[readCount]! });
  const read = await prefill(model, cache, promptIds.slice(readCount), {
    ...{ want: wantWith(chooser.want), taps, meeting, signal },
    async onChunk(tokens, result) {
      readCount += tokens.length;
      root = promptIds[readCount] ?? held?.[0] ?? (await chooser.choose(result));
      session?.observe({ tokens, states: statesOf(drafter, result), next: root });
    },
  });
  // A drafter that is about to draft reads the prompt as part of the prefill, as the target does.
  let choice = policy.choose();
  if (read === undefined) answer.end('aborted');
  else if (choice.policy !== undefined && session.room > 0) await session.catchUp?.();
  const firstMs = performance.now();
  policy.begin?.(firstMs - startMs);

  let origin: TokenOrigin = 'target';
  let likelihood = read && likelihoods.read(read, 0, root);
  let isFull = false;
  while (answer.push(root, origin, likelihood)) {
    // 1. Draft behind the root, as deep as context and answer have room for.
    const draftStart = performance.now();
    const passesAtDraft = passes?.ms ?? 0;
    const room = contextLength - cache.length;
    if (room < 1) {
      answer.end('context');
      break;
    }
    let tree = chainTree(root, []);
    if (session !== undefined && choice.policy !== undefined) {
      try {
        const depthLimit = Math.min(room - 1, session.room);
        if (session.room < 1 && !isFull) {
          isFull = true;
          request.onNotice?.(
            `The context of the drafter is full at ${cache.length} positions; the target's has ${contextLength}. The answer goes on by plain decoding.`,
          );
        }
        const along = sampling.temperature === 0 ? undefined : held?.slice(answer.tokenIds.length);
        tree = await growTree(session, { root, policy: choice.policy, sampling, random, depthLimit, along });
      } catch (cause) {
        const isDrafters = cause instanceof MistletoeError && cause.code === 'drafter';
        if (!isDrafters || request.mustDraft === true) throw cause;
        session = undefined;
        request.onNotice?.(`${describeCause(cause)} The answer goes on by plain decoding.`);
      }
    }
    // 2. The target reads the whole tree in one pass.
    const verifyStart = performance.now();
    const passesAtVerify = passes?.ms ?? 0;
    const result = await model.forward({
      tokens: tree.tokens,
      parents: tree.parents,
      cache,
      ...{ want: wantWith(verify.want), taps, meeting },
    });
    targetPasses += 1;
    const passEnd = performance.now();
    // 3. Keep a path of it, and the rows of that path.
    const { path, nextToken } = await verify.judge(tree, result, answer.tokenIds.length);
    // Scores that stay are still being computed when they are asked about.
    const verifyEnd = verify.want === 'scores' ? performance.now() : passEnd;
    const kept = [0, ...path];
    cache.append(result.rows, kept);
    session?.observe({
      tokens: Int32Array.from(kept, (node) => tree.tokens[node]!),
      states: pickStates(model, statesOf(drafter, result), kept),
      next: nextToken,
    });
    const outcome = {
      proposed: tree.tokens.length - 1,
      accepted: path.length,
      depth: tree.depths.reduce((deepest, depth) => Math.max(deepest, depth), 0),
      draftMs: verifyStart - draftStart,
      verifyMs: verifyEnd - verifyStart,
      ...(passes === undefined
        ? {}
        : { own: { draftMs: passesAtVerify - passesAtDraft, verifyMs: passes.ms - passesAtVerify } }),
      ...(choice.drafter === undefined ? {} : { drafter: choice.drafter }),
    };
    if (session !== undefined) policy.learn(choice, outcome);
    steps.push(outcome);
    request.onStep?.(outcome);
    // 4. The path's tokens are part of the answer; the next token becomes the root.
    const isOpen = path.every((node) => {
      const token = tree.tokens[node]!;
      return answer.push(token, 'accepted', likelihoods.read(result, tree.parents[node]!, token));
    });
    if (!isOpen) break;
    root = nextToken;
    likelihood = likelihoods.read(result, path.at(-1) ?? 0, nextToken);
    choice = session === undefined ? { policy: undefined } : policy.choose();
    origin = tree.tokens.length > 1 ? 'bonus' : 'target';
  }

  const generation = finishGeneration(promptIds, answer, { startMs, firstMs, endMs: performance.now() });
  const draftMs = steps.reduce((total, step) => total + step.draftMs, 0);
  const verifyMs = steps.reduce((total, step) => total + step.verifyMs, 0);
  return {
    ...generation,
    acceptance: summariseAcceptance(steps, answer.tokenIds.length),
    rule,
    steps,
    targetPasses,
    drafterPasses: counted.passes,
    draftMs,
    verifyMs,
    overheadMs: generation.decodeMs - draftMs - verifyMs,
    drafterFailed: session === undefined,
  };
}

function statesOf({ reads }: Drafter, result: ForwardResult): RowBuffer | undefined {
  return reads === 'tokens' ? undefined : result[reads]!;
}

function pickStates(
  { runtime }: CausalModel,
  states: RowBuffer | undefined,
  picks: readonly number[],
): RowBuffer | undefined {
  return states && pickRows(runtime, states, picks);
}
