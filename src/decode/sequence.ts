/**
 * All state of a request. The engine's step (engine.ts) asks each sequence to propose a draft tree after its last token,
 * to read the tree with the target, to judge it, and to accept what verification keeps: a path of the tree, and one
 * token more. A step that proposes nothing is plain decoding.
 */
import { describeCause, MistletoeError } from '../core/errors.js';
import { createRandom, type Random } from '../core/random.js';
import { sum } from '../core/vector.js';
import type { Drafter, DraftSession, VerifiedTokens } from '../draft/drafter.js';
import { outputsFor, type StateReader, statesOf } from '../draft/joined/target-states.js';
import { isGrownAtOnce } from '../draft/tree/grow-tree.js';
import { levelsOf } from '../draft/tree/policy.js';
import { chainTree, isOnDevice, type TokenTree } from '../draft/tree/token-tree.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import type { ForwardOutput, ForwardResult } from '../model/forward.js';
import type { BatchStep, PassScheduler } from '../model/lanes/lane-program.js';
import { pickRows } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import { summariseAcceptance } from './acceptance.js';
import { Answer, createLikelihoodReader, type LikelihoodReader, type TokenEvent } from './answer.js';
import { GenerationClock } from './generation-clock.js';
import { ChainAhead, PassesAhead } from './passes-in-flight.js';
import type { DraftChoice, StepOutcome } from './policies/policy-chooser.js';
import { PromptReading } from './prompt-reading.js';
import type { Generation, GenerationRequest, SpeculativeGeneration, SpeculativeRequest } from './request.js';
import type { StepMember, StepTimes, TreePass, Turn } from './step.js';
import { locateLogits, type LogitsOnDevice } from './verification/logits-location.js';
import { findLoss, type Verification, type VerificationRule } from './verification/verification.js';
import { createVerifier, type Verifier } from './verification/verifier.js';

interface Root extends Pick<TokenEvent, 'origin' | 'likelihood'> {
  readonly token: number;
}

const withoutDrafter: StateReader = { reads: 'tokens', taps: [] };
const plainChoice: DraftChoice = { policy: undefined };

export class Sequence implements StepMember {
  readonly prompt: PromptReading;
  private readonly rule: VerificationRule;
  private readonly onDevice: LogitsOnDevice | undefined;
  private readonly verifier: Verifier;
  private readonly likelihoods: LikelihoodReader;
  private readonly draftRandom: Random;
  private readonly cache: KvCache;
  private readonly answer: Answer;
  private readonly reader: StateReader;
  /** Undefined once the drafter has failed. */
  private session: DraftSession | undefined;
  private readonly chainAhead: ChainAhead;
  /** For plain steps of a greedy answer, if the runtime keeps tokens. */
  private readonly passesAhead: PassesAhead | undefined;
  /** The newest token, which is not in the cache yet. */
  private root: Root | undefined;
  /** The policy's for the step to come, once it was asked. */
  private choice: DraftChoice | undefined;
  /** Whether the step is plain because its pass had started when the policy chose. */
  private isForced = false;
  private preparedRuns: number | undefined;
  private isDrafterFull = false;
  /** Buffers of the step in progress. */
  private readonly buffers: RowBuffer[] = [];
  private readonly steps: StepOutcome[] = [];
  private drafterPasses = 0;
  private readonly clock: GenerationClock;

  constructor(
    private readonly model: CausalModel,
    private readonly request: GenerationRequest & Partial<SpeculativeRequest>,
    private readonly passes: PassScheduler,
    private readonly drafter?: Drafter,
  ) {
    this.clock = new GenerationClock(model.runtime);
    const { promptIds, sampling, seed, held, topLikelihoods, prefix } = request;
    this.rule = request.rule ?? (sampling.temperature === 0 ? 'greedy' : 'rejection');
    this.onDevice = locateLogits(model, request, passes);
    this.verifier = createVerifier(this.rule, request, createRandom(seed, 'decode'), this.onDevice);
    this.likelihoods = createLikelihoodReader(topLikelihoods, model.configuration.vocabularySize);
    this.draftRandom = createRandom(seed, 'draft');
    const limits = held === undefined ? {} : { maxNewTokens: held.length, stopIds: [], stopStrings: [] };
    this.answer = new Answer(promptIds, { ...request, ...limits });
    this.reader = drafter ?? withoutDrafter;
    this.cache = prefix?.cache.fork() ?? model.createCache();
    this.session = drafter?.startSession(passes);
    this.chainAhead = new ChainAhead(model.runtime, (tokens) => this.forward(tokens));
    const isGreedy = this.rule === 'greedy' && held === undefined && topLikelihoods === undefined;
    if (isGreedy && model.runtime.keepsTokens === true)
      this.passesAhead = new PassesAhead(model, this.cache, passes, this.reader);
    this.prompt = this.readPrompt();
  }

  get hasEnded(): boolean {
    return this.root === undefined;
  }

  /** Without what programs were prepared in. */
  now(): number {
    return this.clock.now();
  }

  async prepare(): Promise<void> {
    const { chainLengths = [], trees } = this.request.policy ?? {};
    const isGreedy = this.request.sampling.temperature === 0;
    await Promise.all([
      this.model.prepare(this.reader.taps),
      this.onDevice?.sampler.prepare(),
      this.drafter?.prepare({
        chains: isGreedy ? chainLengths : [],
        drawnChains: isGreedy ? [] : chainLengths,
        trees: trees?.filter(isGrownAtOnce),
      }),
    ]);
    this.clock.start();
  }

  private readPrompt(): PromptReading {
    const { model, cache, reader } = this;
    const { promptIds, prefix, held, signal } = this.request;
    let readCount = cache.length;
    if (prefix !== undefined) this.observe({ ...prefix, next: promptIds[readCount]! });
    return new PromptReading(model, cache, promptIds.slice(readCount), {
      want: this.outputs,
      taps: reader.taps,
      signal,
      onChunk: async (tokens, result) => {
        readCount += tokens.length;
        this.ownOutputs(result);
        const next = promptIds[readCount] ?? held?.[0] ?? (await this.choose(tokens.at(-1)!, result));
        const states = this.own(statesOf(model.runtime, reader, result));
        this.observe({ tokens, states, next });
        this.freeBuffers();
        if (readCount === promptIds.length)
          this.root = { token: next, origin: 'target', likelihood: this.likelihoods.read(result, 0, next) };
      },
      onEnd: () => this.begin(),
    });
  }

  /** The token after the prompt. */
  private async choose(last: number, result: TreePass['result']): Promise<number> {
    return (await this.verifier.judge(chainTree(last, []), result, 0)).nextToken;
  }

  /** The prompt is read, or its reading was aborted. */
  private async begin(): Promise<void> {
    const { answer, request, clock, root } = this;
    if (root === undefined) answer.end('aborted');
    // A drafter that is about to draft reads the prompt as part of the prefill.
    else if (this.nextChoice().policy !== undefined && this.session!.room > 0)
      await this.session!.catchUp().catch((cause: unknown) => {
        this.loseDrafter(cause);
      });
    clock.endPrefill();
    request.policy?.begin?.(clock.prefillMs);
    if (root !== undefined) this.push(root);
  }

  /** Asked once a step. */
  private nextChoice(): DraftChoice {
    const { session, request } = this;
    return (this.choice ??= session === undefined ? plainChoice : request.policy!.choose(session));
  }

  /** The step's tree: as deep as the contexts allow, or the root alone. */
  async propose(): Promise<TokenTree> {
    const root = this.root!.token;
    this.preparedRuns = this.model.runtime.preparedRuns;
    const choice = this.nextChoice();
    // The pass over the root was started in the belief that there would be no draft.
    this.isForced = choice.policy !== undefined && this.passesAhead?.isAhead === true;
    if (choice.policy === undefined || this.isForced) return chainTree(root, []);
    const tree = await this.draft(root, choice);
    if (isOnDevice(tree.laws)) this.own(tree.laws);
    return tree;
  }

  private async draft(root: number, { policy, source }: DraftChoice): Promise<TokenTree> {
    const { session, cache, answer, request, drafter, draftRandom: random } = this;
    const { sampling, held, onNotice } = request;
    const { contextLength } = this.model.configuration;
    try {
      if (session!.room < 1 && !this.isDrafterFull) {
        this.isDrafterFull = true;
        onNotice?.(
          `The context of the drafter is full at ${cache.length} positions; the target's has ${contextLength}. The answer continues with plain decoding.`,
        );
      }
      const depthLimit = Math.min(contextLength - cache.length - 1, session!.room);
      const along = sampling.temperature === 0 ? undefined : held?.slice(answer.tokenIds.length);
      // A lookup without weights has no passes.
      const onPasses = (count: number): void => {
        if (drafter!.parameterCount > 0) this.drafterPasses += count;
      };
      const { runtime } = this.model;
      const mayStart = runtime.keepsTokens === true && this.passes.isAlone && levelsOf(policy!) <= depthLimit;
      const onTokens = (chain: RowBuffer): void => {
        this.chainAhead.start(root, chain);
      };
      const drafting = { root, policy: policy!, source, sampling, random, depthLimit, along, onPasses };
      return await session!.propose({ ...drafting, onTokens: mayStart ? onTokens : undefined });
    } catch (cause) {
      await this.chainAhead.drop();
      this.loseDrafter(cause);
      return chainTree(root, []);
    }
  }

  private observe(verified: VerifiedTokens): void {
    try {
      this.session?.observe(verified);
    } catch (cause) {
      this.loseDrafter(cause);
    }
  }

  /** Continues without it, unless something else failed or the request must draft. */
  private loseDrafter(cause: unknown): void {
    const { mustDraft, onNotice } = this.request;
    if (!(cause instanceof MistletoeError) || cause.code !== 'drafter' || mustDraft === true) throw cause;
    this.session?.close();
    this.session = undefined;
    this.choice = plainChoice;
    onNotice?.(`${describeCause(cause)} The answer continues with plain decoding.`);
  }

  async read({ tokens, parents }: TokenTree): Promise<TreePass> {
    const { passesAhead, chainAhead, isForced, answer } = this;
    if (passesAhead !== undefined && (isForced || this.choice!.policy === undefined)) {
      const mayGoOn = !isForced && answer.remaining > 1;
      const result = await passesAhead.next(tokens[0]!, mayGoOn);
      this.ownOutputs(result);
      return { result, rows: undefined };
    }
    const result = await (chainAhead.take() ?? this.forward(tokens, parents));
    this.ownOutputs(result);
    return { result, rows: this.own(result.rows) };
  }

  /** Until the step ends or fails. */
  private own(buffer: RowBuffer | undefined): RowBuffer | undefined {
    if (buffer !== undefined) this.buffers.push(buffer);
    return buffer;
  }

  private ownOutputs({ features, taps, scores }: TreePass['result']): void {
    for (const buffer of [features, taps, scores?.rows]) this.own(buffer);
  }

  private freeBuffers(): void {
    for (const buffer of this.buffers.splice(0)) buffer.free();
  }

  private forward(tokens: Int32Array | RowBuffer, parents?: Int32Array): Promise<ForwardResult> {
    const { model, cache, outputs: want, reader, passes: scheduler } = this;
    return model.forward({ tokens, parents, cache, want, taps: reader.taps, scheduler });
  }

  private get outputs(): readonly ForwardOutput[] {
    const { verifier, likelihoods, reader } = this;
    return [...new Set([verifier.want, ...likelihoods.want, ...outputsFor(reader)])];
  }

  async judge(tree: TokenTree, { result }: TreePass): Promise<Verification> {
    return this.verifier.judge(tree, result, this.answer.tokenIds.length);
  }

  /** Keeps the accepted path and emits its tokens. False at the end of the answer. */
  accept({ tree, pass, verdict }: Turn, times: StepTimes, batch: BatchStep): boolean {
    const { model, cache, likelihoods, reader, request, choice } = this;
    const { path, nextToken } = verdict;
    const accepted = [0, ...path];
    if (pass.rows !== undefined) cache.append(pass.rows, accepted);
    const states = this.own(statesOf(model.runtime, reader, pass.result));
    const kept = this.own(states && pickRows(model.runtime, states, accepted));
    this.observe({
      tokens: Int32Array.from(accepted, (node) => tree.tokens[node]!),
      states: kept,
      next: nextToken,
    });
    this.freeBuffers();
    const outcome: StepOutcome = {
      proposed: tree.tokens.length - 1,
      accepted: path.length,
      depth: Math.max(...tree.depths),
      draftMs: times.draftMs,
      // Logits on the device may still be in computation when the pass returns.
      verifyMs: times.readMs + (this.verifier.want === 'scores' ? times.judgeMs : 0),
      batch,
      isCold: model.runtime.preparedRuns !== this.preparedRuns,
    };
    // The choice before a forced step is still to be made.
    if (!this.isForced) {
      if (this.session !== undefined) request.policy!.learn(choice!, outcome);
      this.choice = undefined;
    }
    this.steps.push(outcome);
    request.onStep?.(outcome, { tree, verdict, ...times });
    const isOpen = path.every((node) => {
      const token = tree.tokens[node]!;
      const likelihood = likelihoods.read(pass.result, tree.parents[node]!, token);
      return this.answer.push(token, 'accepted', likelihood);
    });
    // No await after the accepted tokens: listeners report all tokens of a pass together.
    return (
      isOpen &&
      this.push({
        token: nextToken,
        origin: tree.tokens.length > 1 ? 'bonus' : 'target',
        likelihood: likelihoods.read(pass.result, path.at(-1) ?? 0, nextToken),
      })
    );
  }

  /** Emits the token, and makes it the next root if the answer goes on. */
  private push(root: Root): boolean {
    const { answer, passesAhead, cache, model } = this;
    this.root = answer.push(root.token, root.origin, root.likelihood) ? root : undefined;
    const isFull = passesAhead?.isFull ?? cache.length >= model.configuration.contextLength;
    if (this.root === undefined || !isFull) return this.root !== undefined;
    answer.end('context');
    this.root = undefined;
    return false;
  }

  get generation(): Generation {
    const { answer, clock, request } = this;
    const times = clock.end();
    const { decodeMs } = times;
    const later = answer.tokenIds.length - 1;
    return {
      promptTokenIds: request.promptIds,
      tokenIds: answer.tokenIds,
      origins: answer.origins,
      text: answer.text,
      finishReason: answer.finishReason ?? 'length',
      stopString: answer.stopString,
      ...times,
      tokensPerSecond: later > 0 && decodeMs > 0 ? later / (decodeMs / 1000) : 0,
    };
  }

  get speculativeGeneration(): SpeculativeGeneration {
    const { generation, steps, rule, drafterPasses, session } = this;
    const draftMs = sum(steps.map((step) => step.draftMs));
    const verifyMs = sum(steps.map((step) => step.verifyMs));
    return {
      ...generation,
      acceptance: summariseAcceptance(steps, generation.tokenIds.length),
      rule,
      lossReason: findLoss(rule, this.model.runtime),
      steps,
      targetPasses: steps.length,
      drafterPasses,
      draftMs,
      verifyMs,
      overheadMs: generation.decodeMs - draftMs - verifyMs,
      drafterFailed: session === undefined,
    };
  }

  close(): void {
    this.chainAhead.free();
    this.passesAhead?.free();
    this.session?.close();
    this.cache.release();
    this.freeBuffers();
  }
}
