import { outputsFor, statesOf } from '../../src/draft/joined/target-states.js';
/** Drives a published drafter and its reference over the same texts. */
import { join } from 'node:path';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRandom } from '../../src/core/random.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { staticTrees } from '../../src/draft/tree/tree-shapes.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { randomTokens, resolveText } from '../support/tiny-pair.js';
import type { PublishedDrafter } from './drafter-row.js';
import type { Scorer } from './float64-drafters.js';
import { Float64Model } from './float64-model.js';
import type { ReferenceTree } from './float64-policies.js';
import { draftChain, draftDynamicTree, draftStaticTree } from './float64-policies.js';
import { writePublished } from './published-layouts.js';

/** Where drafts begin in a text: with one verified token, directly behind a draft, and further on. */
const roots = [1, 4, 5, 19];
const textLength = 20;

export type PolicyText = 'chain:4' | 'tree:mc_sim_7b_63' | 'dynamic:24,3,4';

export interface Pair {
  readonly drafter: Drafter;
  readonly target: CausalModel;
}

export type Tree = Pick<ReferenceTree, 'tokens' | 'parents'>;

export class PublishedPairs {
  private readonly folder = makeTemporaryFolder();
  private readonly runtime = createOnnxRuntime({ threads: 1 });
  private readonly opened = new Map<string, Promise<Pair>>();

  open(row: PublishedDrafter): Promise<Pair> {
    let pair = this.opened.get(row.name);
    if (pair === undefined) {
      pair = this.load(row, join(this.folder.path, String(this.opened.size)));
      this.opened.set(row.name, pair);
    }
    return pair;
  }

  private async load(row: PublishedDrafter, folder: string): Promise<Pair> {
    const { runtime } = this;
    const cacheFolder = join(this.folder.path, 'cache');
    const targetFolder = writePublished(join(folder, 'target'), row.target.folder);
    const drafterFolder = writePublished(join(folder, 'drafter'), row.folder);
    const { tokenizerSize: vocabularySize } = row;
    if (vocabularySize !== undefined) {
      writeLetterTokenizer(targetFolder, { vocabularySize });
      writeLetterTokenizer(drafterFolder, { vocabularySize });
    }
    const target = await loadModel(targetFolder, { runtime, cacheFolder });
    const tokenizer = vocabularySize === undefined ? undefined : await loadTokenizer(targetFolder);
    return { target, drafter: await loadDrafter(drafterFolder, { target, tokenizer, cacheFolder }) };
  }

  async dispose(): Promise<void> {
    await this.runtime.dispose();
    this.folder.remove();
  }
}

export function textFor({ name, tokenizerSize, target }: PublishedDrafter): number[] {
  return randomTokens(
    `lines for ${name}`,
    textLength,
    tokenizerSize ?? Number(target.folder.config.vocab_size),
  );
}

/** What the drafter drafts behind each root, in one session that is told of the text piece by piece. */
export async function draftWithMistletoe(
  { target, drafter }: Pair,
  text: readonly number[],
  policy: PolicyText,
): Promise<Tree[]> {
  const pass = await target.forward({
    tokens: Int32Array.from(text),
    cache: target.createCache(),
    want: outputsFor(drafter),
    taps: drafter.taps,
  });
  const states = statesOf(target.runtime, drafter, pass);
  const session = drafter.startSession();
  const trees: Tree[] = [];
  let read = 0;
  for (const root of roots) {
    session.observe({
      tokens: Int32Array.from(text.slice(read, root)),
      states: states?.rows(read, root - read),
      next: text[root]!,
    });
    read = root;
    const { tokens, parents } = await session.propose({
      root: text[root]!,
      policy: resolveText(policy, drafter),
      sampling: { temperature: 0 },
      random: createRandom(0),
      depthLimit: session.room,
    });
    trees.push({ tokens: [...tokens], parents: [...parents] });
  }
  return trees;
}

/** The same by the reference, every node from scratch, and each root only when it is asked for. */
export function* draftWithReference(
  { target }: PublishedDrafter,
  score: (target: Float64Model) => Scorer,
  text: readonly number[],
  policy: PolicyText,
): Generator<ReferenceTree> {
  const model = new Float64Model(target.folder.tensors, target.facts);
  const pass = model.run(text);
  const scorer = score(model);
  for (const root of roots) {
    // One node is scored once, though its siblings ask again.
    const known = new Map<string, Float64Array>();
    const scorePath = (path: readonly number[]): Float64Array => {
      const scores = known.get(path.join()) ?? scorer({ pass, root }, path);
      known.set(path.join(), scores);
      return scores;
    };
    const token = text[root]!;
    switch (policy) {
      case 'chain:4':
        yield draftChain(scorePath, token, 4);
        break;
      case 'tree:mc_sim_7b_63':
        yield draftStaticTree(scorePath, token, medusaPaths);
        break;
      case 'dynamic:24,3,4':
        yield draftDynamicTree(scorePath, token, { total: 24, depth: 3, topK: 4 });
    }
  }
}

/** Rank paths of the published tree, one digit per rank. */
const medusaPaths = staticTrees.mc_sim_7b_63.flatMap((level) =>
  level.split(' ').map((path) => Array.from(path, Number)),
);
