/**
 * Speculative decoding: the drafter proposes a tree after the last token, the target reads it in one pass, and
 * verification accepts a path and adds one token. Independent of how the drafter works.
 */
import { describeCause, MistletoeError } from '../core/errors.js';
import { createRandom, type Random } from '../core/random.js';
import { sum } from '../core/vector.js';
import type { Drafter, DraftSession } from '../draft/drafter.js';
import { chainTree, isGrownAtOnce, type TokenTree } from '../draft/tree/token-tree.js';
import { growTree, levelsOf } from '../draft/tree/grow-tree.js';
import type { CausalModel } from '../model/causal-model.js';
import type { ForwardOutput, ForwardResult } from '../model/forward.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import { pickRows } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import { summariseAcceptance, type AcceptanceRecord, type StepRecord } from './acceptance.js';
import type { LikelihoodReader, TokenEvent } from './answer.js';
import { Answer, createLikelihoodReader } from './answer.js';
import { GenerationClock } from './generation-clock.js';
import type { DraftChoice, Guarding, PolicyChooser, StepOutcome } from './policies/policy-chooser.js';
import type { Chooser, Generation, GenerationRequest, LogitsOnDevice } from './plain.js';
import { ChainAhead, PassesAhead, statesOf } from './passes-ahead.js';
import { createChooser, finishGeneration, locateLogits, prefill } from './plain.js';
import { findLoss, type VerificationRule } from './verification/verification.js';
import { createVerifier, type Verifier } from './verification/verifier.js';

export interface SpeculativeRequest extends GenerationRequest {
  readonly policy: PolicyChooser;
  /** Default: `greedy` at temperature 0, else `rejection`. */
  readonly rule?: VerificationRule | undefined;
  /**
   * Forces the answer to these tokens; drafts are judged along them, and above temperature 0 drafted along them.
   * Ignores `maxNewTokens` and stop tokens.
   */
  readonly held?: readonly number[] | undefined;
  /** Fail if the drafter fails, instead of continuing without it. */
  readonly mustDraft?: boolean | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called before the step's tokens. */
  readonly onStep?: ((step: StepRecord) => void) | undefined;
}

export interface SpeculativeGeneration extends Generation {
  readonly acceptance: AcceptanceRecord;
  readonly rule: VerificationRule;
  /** Why the answer can differ from plain decoding's; undefined if it is lossless. */
  readonly lossReason: string | undefined;
  readonly steps: readonly StepOutcome[];
  readonly targetPasses: number;
  readonly drafterPasses: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  /** The rest of decodeMs: verification rules, bookkeeping, streaming. */
  readonly overheadMs: number;
  readonly drafterFailed: boolean;
  /** Set if drafts were guarded (budgeted-drafting.ts). */
  readonly guarding?: Guarding | undefined;
}

export async function decodeSpeculative(
  model: CausalModel,
  drafter: Drafter,
  request: SpeculativeRequest,
): Promise<SpeculativeGeneration> {
  const cache = request.prefix?.cache.fork() ?? model.createCache();
  const session = drafter.startSession(request.scheduler);
  const sequence = new SpeculativeSequence(model, drafter, request, cache, session);
  try {
    return await sequence.decode();
  } finally {
    sequence.free();
    session.close();
    cache.release();
  }
}

interface Root extends Pick<TokenEvent, 'origin' | 'likelihood'> {
  readonly token: number;
}

class SpeculativeSequence {
  private readonly rule: VerificationRule;
  private readonly onDevice: LogitsOnDevice | undefined;
  private readonly chooser: Chooser;
  private readonly verifier: Verifier;
  private readonly likelihoods: LikelihoodReader;
  private readonly draftRandom: Random;
  private readonly answer: Answer;
  private readonly clock: GenerationClock;
  private readonly steps: StepOutcome[] = [];
  private targetPasses = 0;
  private drafterPasses = 0;
  private isDrafterFull = false;
  private readonly chainAhead: ChainAhead;
  /** For plain steps of a greedy answer. */
  private readonly passesAhead: PassesAhead | undefined;

  constructor(
    private readonly model: CausalModel,
    private readonly drafter: Drafter,
    private readonly request: SpeculativeRequest,
    private readonly cache: KvCache,
    /** Undefined once the drafter has failed. */
    private session: DraftSession | undefined,
  ) {
    const { promptIds, sampling, seed, held, topLikelihoods } = request;
    this.rule = request.rule ?? (sampling.temperature === 0 ? 'greedy' : 'rejection');
    this.onDevice = locateLogits(model, request);
    this.verifier = createVerifier(this.rule, request, createRandom(seed, 'verify'), this.onDevice);
    this.chooser = createChooser(sampling, createRandom(seed, 'decode'), this.onDevice);
    this.likelihoods = createLikelihoodReader(topLikelihoods, model.configuration.vocabularySize);
    this.draftRandom = createRandom(seed, 'draft');
    this.chainAhead = new ChainAhead(model.runtime, (tokens) => this.read(tokens));
    const isGreedy = this.rule === 'greedy' && held === undefined && topLikelihoods === undefined;
    if (isGreedy && model.runtime.keepsTokens === true)
      this.passesAhead = new PassesAhead(model, cache, request.scheduler, drafter);
    const limits = held === undefined ? {} : { maxNewTokens: held.length, stopIds: [], stopStrings: [] };
    this.clock = new GenerationClock(model.runtime);
    this.answer = new Answer(promptIds, { ...request, ...limits });
  }

  free(): void {
    this.chainAhead.free();
    this.passesAhead?.free();
  }

  async decode(): Promise<SpeculativeGeneration> {
    const { answer, clock, request } = this;
    const { chainLengths, trees } = request.policy;
    const isGreedy = request.sampling.temperature === 0;
    await Promise.all([
      this.model.prepare(this.drafter.taps),
      this.onDevice?.draws.prepare(),
      this.drafter.prepare({
        chains: isGreedy ? chainLengths : [],
        drawnChains: isGreedy ? [] : chainLengths,
        trees: trees?.filter(isGrownAtOnce),
      }),
    ]);
    clock.start();
    let root = await this.readPrompt();
    // A drafter that is about to draft reads the prompt as part of the prefill.
    let choice = request.policy.choose(this.session);
    if (root === undefined) answer.end('aborted');
    else if (choice.policy !== undefined && this.session!.room > 0) await this.session!.catchUp?.();
    clock.endPrefill();
    request.policy.begin?.(clock.prefillMs);
    if (root !== undefined && !this.push(root)) root = undefined;
    while (root !== undefined) {
      root = await this.step(root, choice);
      if (root !== undefined)
        choice = this.session === undefined ? { policy: undefined } : request.policy.choose(this.session);
    }
    const generation = finishGeneration(request.promptIds, answer, clock);
    const { steps, rule, targetPasses, drafterPasses } = this;
    const draftMs = sum(steps.map((step) => step.draftMs));
    const verifyMs = sum(steps.map((step) => step.verifyMs));
    return {
      ...generation,
      acceptance: summariseAcceptance(steps, generation.tokenIds.length),
      rule,
      lossReason: findLoss(rule, this.model.runtime),
      steps,
      targetPasses,
      drafterPasses,
      draftMs,
      verifyMs,
      overheadMs: generation.decodeMs - draftMs - verifyMs,
      drafterFailed: this.session === undefined,
    };
  }

  /** Undefined if the request was aborted before the last chunk. */
  private async readPrompt(): Promise<Root | undefined> {
    const { model, cache, chooser, drafter, session } = this;
    const { promptIds, prefix, held, scheduler, signal } = this.request;
    let token = 0;
    let readCount = cache.length;
    if (prefix !== undefined) session!.observe({ ...prefix, next: promptIds[readCount]! });
    const read = await prefill(model, cache, promptIds.slice(readCount), {
      want: this.outputsWith(chooser.want),
      taps: drafter.taps,
      scheduler,
      signal,
      onChunk: async (tokens, result) => {
        readCount += tokens.length;
        token = promptIds[readCount] ?? held?.[0] ?? (await chooser.choose(result));
        const states = statesOf(drafter, result);
        session!.observe({ tokens, states, next: token });
        states?.free();
      },
    });
    return read && { token, origin: 'target', likelihood: this.likelihoods.read(read, 0, token) };
  }

  /** Returns the next root, or undefined at the end of the answer. */
  private async step(root: Root, choice: DraftChoice): Promise<Root | undefined> {
    const { answer, cache, likelihoods, model, request, passesAhead } = this;
    const log = request.scheduler?.log;
    if (passesAhead?.isFull ?? cache.length >= model.configuration.contextLength) {
      answer.end('context');
      return undefined;
    }
    if (passesAhead !== undefined && choice.policy === undefined)
      return this.stepAhead(root, passesAhead, choice);
    if (passesAhead?.isAhead === true) {
      // The pass over the root was started in the belief that there would be no draft.
      const next = await this.stepAhead(root, passesAhead);
      return next && this.step(next, choice);
    }
    const startMs = this.clock.now();
    const { preparedRuns } = model.runtime;
    const passesBefore = log?.ms ?? 0;
    const tree = await this.draft(root.token, choice);
    const draftMs = this.clock.now() - startMs;
    const passesAtVerify = log?.ms ?? 0;
    const { path, nextToken, result, verifyMs } = await this.verify(tree);
    const outcome: StepOutcome = {
      proposed: tree.tokens.length - 1,
      accepted: path.length,
      depth: Math.max(...tree.depths),
      draftMs,
      verifyMs,
      own: log && { draftMs: passesAtVerify - passesBefore, verifyMs: log.ms - passesAtVerify },
      batch: log?.step,
      isCold: model.runtime.preparedRuns !== preparedRuns,
      drafter: choice.drafter,
    };
    this.note(outcome, choice);
    const isOpen = path.every((node) => {
      const token = tree.tokens[node]!;
      return answer.push(token, 'accepted', likelihoods.read(result, tree.parents[node]!, token));
    });
    if (!isOpen) return undefined;
    const next: Root = {
      token: nextToken,
      origin: tree.tokens.length > 1 ? 'bonus' : 'target',
      likelihood: likelihoods.read(result, path.at(-1) ?? 0, nextToken),
    };
    // No await after the accepted tokens: listeners report all tokens of a pass together.
    return this.push(next) ? next : undefined;
  }

  /** A plain step, while the next one may have started already. Without a choice, nothing is learned from it. */
  private async stepAhead(root: Root, passes: PassesAhead, choice?: DraftChoice): Promise<Root | undefined> {
    const log = this.request.scheduler?.log;
    const [startMs, passesBefore] = [this.clock.now(), log?.ms ?? 0];
    const { runtime } = this.model;
    const { preparedRuns } = runtime;
    const mayGoOn = choice !== undefined && this.answer.remaining > 1;
    const { token, states } = await passes.next(root.token, mayGoOn);
    this.targetPasses += 1;
    this.session?.observe({ tokens: Int32Array.of(root.token), states, next: token });
    states?.free();
    const outcome: StepOutcome = {
      ...{ proposed: 0, accepted: 0, depth: 0, draftMs: 0, verifyMs: this.clock.now() - startMs },
      own: log && { draftMs: 0, verifyMs: log.ms - passesBefore },
      batch: log?.step,
      isCold: runtime.preparedRuns !== preparedRuns,
      drafter: choice?.drafter,
    };
    this.note(outcome, choice);
    const next: Root = { token, origin: 'target' };
    return this.push(next) ? next : undefined;
  }

  private note(outcome: StepOutcome, choice: DraftChoice | undefined): void {
    const { request, session, steps } = this;
    if (session !== undefined && choice !== undefined) request.policy.learn(choice, outcome);
    steps.push(outcome);
    request.onStep?.(outcome);
  }

  private push({ token, origin, likelihood }: Root): boolean {
    return this.answer.push(token, origin, likelihood);
  }

  /** As deep as the contexts allow. A plain step has only the root. */
  private async draft(root: number, { policy, source }: DraftChoice): Promise<TokenTree> {
    const { session, cache, answer, request, draftRandom: random } = this;
    const { sampling, held, onNotice } = request;
    if (session === undefined || policy === undefined) return chainTree(root, []);
    const { contextLength } = this.model.configuration;
    try {
      if (session.room < 1 && !this.isDrafterFull) {
        this.isDrafterFull = true;
        onNotice?.(
          `The context of the drafter is full at ${cache.length} positions; the target's has ${contextLength}. The answer continues with plain decoding.`,
        );
      }
      const depthLimit = Math.min(contextLength - cache.length - 1, session.room);
      const along = sampling.temperature === 0 ? undefined : held?.slice(answer.tokenIds.length);
      // A lookup without weights has no passes.
      const onPasses = (count: number): void => {
        if (this.drafter.parameterCount > 0) this.drafterPasses += count;
      };
      const mayStart =
        this.model.runtime.keepsTokens === true &&
        (request.scheduler?.isAlone ?? true) &&
        levelsOf(policy) <= depthLimit;
      const onTokens = (chain: RowBuffer): void => {
        this.chainAhead.start(root, chain);
      };
      const drafting = { root, policy, source, sampling, random, depthLimit, along, onPasses };
      return await growTree(session, { ...drafting, onTokens: mayStart ? onTokens : undefined });
    } catch (cause) {
      await this.chainAhead.drop();
      const isDrafters = cause instanceof MistletoeError && cause.code === 'drafter';
      if (!isDrafters || request.mustDraft === true) throw cause;
      this.session = undefined;
      onNotice?.(`${describeCause(cause)} The answer continues with plain decoding.`);
      return chainTree(root, []);
    }
  }

  private read(tokens: Int32Array | RowBuffer, parents?: Int32Array): Promise<ForwardResult> {
    const { model, cache, verifier, drafter, request } = this;
    const want = this.outputsWith(verifier.want);
    const { scheduler } = request;
    return model.forward({ tokens, parents, cache, want, taps: drafter.taps, scheduler });
  }

  /** One target pass; the cache keeps the accepted path. */
  private async verify(tree: TokenTree) {
    const { model, drafter, verifier, cache, answer } = this;
    const startMs = this.clock.now();
    const result = await (this.chainAhead.take() ?? this.read(tree.tokens, tree.parents));
    this.targetPasses += 1;
    const passEndMs = this.clock.now();
    const { path, nextToken } = await verifier.judge(tree, result, answer.tokenIds.length);
    // Logits on the device may still be in computation when the pass returns.
    const endMs = verifier.want === 'scores' ? this.clock.now() : passEndMs;
    const accepted = [0, ...path];
    cache.append(result.rows, accepted);
    result.rows.free();
    const states = statesOf(drafter, result);
    const acceptedStates = states && pickRows(model.runtime, states, accepted);
    const tokens = Int32Array.from(accepted, (node) => tree.tokens[node]!);
    this.session?.observe({ tokens, states: acceptedStates, next: nextToken });
    acceptedStates?.free();
    states?.free();
    return { path, nextToken, result, verifyMs: endMs - startMs };
  }

  private outputsWith(logits: ForwardOutput): readonly ForwardOutput[] {
    const { reads } = this.drafter;
    return [...new Set([logits, ...this.likelihoods.want, ...(reads === 'tokens' ? [] : [reads])])];
  }
}
