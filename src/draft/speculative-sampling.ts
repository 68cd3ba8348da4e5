/**
 * Plain speculative sampling (arXiv 2211.17192, 2302.01318): the drafter is a small language model with the target's
 * vocabulary. It reads tokens only, and drafts trees like any other drafter, with a cache of its own.
 */
import { MistletoeError } from '../core/errors.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { symbol } from '../graph/dimension.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { reshape } from '../graph/operations/shaping.js';
import type { CausalModel } from '../model/causal-model.js';
import { createModel, declareAttention, declarePast, stackRows } from '../model/causal-model.js';
import { embeddingTable, embedTokens, projectToVocabulary, runDecoder } from '../model/decoder.js';
import type { NamedTensors, NamedValues, Program } from '../runtime/program.js';
import { floatsOf, int32 } from '../runtime/program.js';
import type { Tokenizer } from '../text/tokenizer.js';
import { findVocabularyDifference } from '../text/tokenizer.js';
import { chainAngles, createChainCompiler, readChain } from './chain-program.js';
import { countParameters, misfit } from './checks.js';
import { DraftAttention } from './draft-attention.js';
import { buildDraftModelChain } from './draft-model-chain.js';
import type { DraftedLogits, Drafter, DraftGraph, DraftSession, TeacherForcing } from './drafter.js';
import { dropFirst } from './positions.js';
import { readScores, scoreNames, scoreOutputs } from './scores.js';

const ingestChunk = 256;

export interface TokenizerPair {
  readonly target: Tokenizer | undefined;
  /** Undefined where the drafter's folder has none: then it uses the target's. */
  readonly drafter: Tokenizer | undefined;
}

export async function loadDraftModel(
  checkpoint: Checkpoint,
  target: CausalModel,
  tokenizers: TokenizerPair,
  options: CacheOptions,
): Promise<Drafter> {
  const model = await createModel(checkpoint, { ...options, runtime: target.runtime, scope: 'draft.' });
  const wanted = target.configuration.vocabularySize;
  const found = model.configuration.vocabularySize;
  if (found !== wanted) {
    throw misfit(
      checkpoint.folder,
      `has a vocabulary of ${found} tokens; the target's has ${wanted}`,
      "Speculative sampling needs a draft model with the target's tokenizer.",
    );
  }
  requireSameVocabulary(checkpoint.folder, tokenizers);
  return new DraftModel(model, target);
}

function requireSameVocabulary(folder: string, { target, drafter }: TokenizerPair): void {
  if (target === undefined || drafter === undefined) return;
  const difference = findVocabularyDifference(target, drafter);
  if (difference === undefined) return;
  const quote = (piece: string | undefined): string =>
    piece === undefined ? 'nothing' : JSON.stringify(piece);
  throw misfit(
    folder,
    `has another vocabulary: token ${difference.id} is ${quote(difference.right)} there and ${quote(difference.left)} in the target`,
    "Speculative sampling needs a draft model with the target's tokenizer.",
  );
}

class DraftModel implements Drafter {
  readonly system = 'speculative-sampling';
  readonly name = 'draft model';
  readonly reads = 'tokens';
  readonly taps = [];
  readonly maximumDepth = Infinity;
  readonly vocabularySize: number;
  readonly parameterCount: number;
  readonly graph: DraftGraph;
  private program: Promise<Program> | undefined;
  private readonly compileChain: (length: number) => Promise<Program>;

  constructor(
    private readonly model: CausalModel,
    target: CausalModel,
  ) {
    if (target.scope === model.scope)
      throw new MistletoeError('drafter', `Target and drafter share the scope "${model.scope}".`);
    this.vocabularySize = model.configuration.vocabularySize;
    this.parameterCount = countParameters(model.weights);
    this.compileChain = createChainCompiler(model.runtime, [model.weights], (length) =>
      buildDraftModelChain(model, length),
    );
    this.graph = {
      weights: [model.weights],
      targetTokens: undefined,
      attention: {
        sizes: model.configuration,
        rotary: model.rotary,
        async readPrefix({ tokens }, cache) {
          for (let start = 0; start < tokens.length; start += ingestChunk) {
            const chunk = tokens.subarray(start, start + ingestChunk);
            const { rows } = await model.forward({ tokens: chunk, cache, want: [] });
            cache.appendAll(rows, chunk.length);
          }
        },
      },
      draftLogits: (teacher, depth) => this.draftLogits(teacher, depth),
    };
  }

  /** Every depth reads the same pass: along known tokens a draft model sees exactly the text. */
  private draftLogits(teacher: TeacherForcing, depth: number): DraftedLogits {
    const { configuration, scope } = this.model;
    const embeddings = teacher.embedWith(embeddingTable(configuration, scope));
    const { context, past } = teacher;
    const decoded = runDecoder(configuration, scope, embeddings, {
      context,
      ...(past === undefined ? {} : { past }),
    });
    const scored = dropFirst(dropFirst(decoded.features, 1), teacher.firstRow);
    const all = projectToVocabulary(configuration, scope, scored);
    const logits = Array.from({ length: depth }, (_, level) => dropFirst(all, level));
    return { logits, rows: decoded.rows };
  }

  async prepare(chains: readonly number[] = []): Promise<void> {
    await Promise.all([this.compile(), ...chains.map((length) => this.compileChain(length))]);
  }

  private compile(): Promise<Program> {
    const { runtime, weights } = this.model;
    return (this.program ??= runtime.compile(this.buildGraph(), [weights], { packed: true }));
  }

  private buildGraph(): NamedTensors {
    const { configuration, scope } = this.model;
    const row = symbol('row');
    const tokens = input('tokens', [row], 'int32');
    const select = input('select', [symbol('selected')], 'int32');
    const embeddings = reshape(embedTokens(configuration, scope, tokens), [1, row, configuration.hiddenSize]);
    const options = { context: declareAttention(configuration), past: declarePast(configuration) };
    const decoded = runDecoder(configuration, scope, embeddings, options);
    const features = gatherRows(reshape(decoded.features, [row, configuration.hiddenSize]), select);
    return {
      ...scoreOutputs(projectToVocabulary(configuration, scope, features)),
      rows: stackRows(decoded.rows, configuration),
    };
  }

  startSession(): DraftSession {
    const { contextLength, vocabularySize } = this.model.configuration;
    const cache = this.model.createCache();
    const attention = new DraftAttention(cache, this.model.rotary);
    const sizes = { targetSize: vocabularySize, draftSize: vocabularySize };
    let pending: number[] = []; // verified tokens that are not in the cache yet
    let root = 0;

    /** Reads verified tokens, the last chunk of them as `finish` likes. */
    const readTokens = async (
      unread: readonly number[],
      finish: (inputs: NamedValues, count: number) => Promise<NamedValues>,
    ): Promise<NamedValues> => {
      const program = await this.compile();
      let last: NamedValues = {};
      attention.reset();
      for (let start = 0; start < unread.length; start += ingestChunk) {
        const tokens = unread.slice(start, start + ingestChunk);
        const count = tokens.length;
        const inputs = { tokens: int32(tokens), ...attention.verifiedInputs(count) };
        const isLast = start + count === unread.length;
        last = await (isLast ? finish(inputs, count) : readRows(program, inputs, count));
        attention.keepVerified(floatsOf(last, 'rows'), count);
      }
      return last;
    };
    const readRows = (program: Program, inputs: NamedValues, count: number): Promise<NamedValues> =>
      program.run({ ...inputs, select: int32([count - 1]) }, ['rows']);
    /** Pending tokens and the root, which the next verification brings again. */
    const readPending = async (
      finish: (inputs: NamedValues, count: number) => Promise<NamedValues>,
    ): Promise<NamedValues> => {
      const last = await readTokens([...pending, root], finish);
      pending = [];
      attention.openLast(0);
      return last;
    };

    return {
      get room() {
        return contextLength - cache.length - pending.length - 1;
      },
      observe({ tokens, next }) {
        attention.reset();
        pending.push(...tokens);
        root = next;
      },
      catchUp: async () => {
        const program = await this.compile();
        await readTokens(pending, (inputs, count) => readRows(program, inputs, count));
        pending = [];
      },
      expand: async (draft, nodes, want) => {
        const program = await this.compile();
        const names = [...scoreNames(want), 'rows'];
        const depth = draft.depths[nodes[0]!]!;
        if (depth === 0) {
          const last = await readPending((inputs, count) =>
            program.run({ ...inputs, select: int32([count - 1]) }, names),
          );
          return readScores(last, want, sizes);
        }
        const tokens = int32(nodes.map((node) => draft.tokens[node]!));
        const select = int32(nodes.map((_, row) => row));
        const outputs = await program.run(
          { tokens, select, ...attention.draftedInputs(draft, nodes, depth) },
          names,
        );
        attention.keepDrafted(floatsOf(outputs, 'rows'), nodes);
        return readScores(outputs, want, sizes);
      },
      draftChain: async (length) => {
        const program = await this.compileChain(length);
        const outputs = await readPending((inputs, count) => {
          const start = attention.verifiedLength + count;
          return program.run({ ...inputs, ...chainAngles(this.model.rotary, start, length) });
        });
        return readChain(outputs);
      },
    };
  }
}
