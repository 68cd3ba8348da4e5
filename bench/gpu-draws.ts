/** Whether a seed gives the same tokens wherever they are drawn: by the host's rules, and by programs on a GPU. */
import { dirname, join } from 'node:path';
import { createRandom } from '../src/core/random.js';
import type { SamplingOptions } from '../src/core/sampling.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { decodePlain } from '../src/decode/plain.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { loadModel } from '../src/model/causal-model.js';
import type { Runtime } from '../src/runtime/program.js';
import { printTable } from './stopwatch.js';

const samplings: readonly SamplingOptions[] = [
  { temperature: 0.7 },
  { temperature: 1 },
  { temperature: 1, topP: 0.9 },
  { temperature: 0.7, topK: 40 },
];
const kinds = ['plain', 'chain:4', 'dynamic:12,2,3'];
const prompts = Array.from({ length: 20 }, (_, prompt) => {
  const random = createRandom(prompt, 'draws');
  return Array.from({ length: 8 + 2 * prompt }, () => 100 + random.nextInteger(3900));
});
const maxNewTokens = 40;

/** [sampling and kind] -> an answer for each prompt */
type Answers = ReadonlyMap<string, readonly (readonly number[])[]>;

export interface DrawingPlace {
  readonly name: string;
  readonly open: () => Runtime;
  readonly drawsInPrograms: boolean;
  /** The place whose tokens it should give. */
  readonly like?: string;
}

export async function compareDraws(places: readonly DrawingPlace[]): Promise<void> {
  const known = new Map<string, Answers>();
  const table = [
    ['drawn', 'against', 'sampling', 'draft', 'same answers', 'tokens before the first other one'],
  ];
  for (const { name, open, drawsInPrograms, like } of places) {
    const runtime = Object.assign(open(), { drawsInPrograms });
    const answers = await decodeAll(runtime);
    await runtime.dispose();
    known.set(name, answers);
    if (like === undefined) continue;
    for (const [setting, own] of answers) {
      const wanted = known.get(like)!.get(setting)!;
      const shared = own.map((tokens, prompt) => countShared(tokens, wanted[prompt]!));
      const same = own.filter((tokens, prompt) => tokens.join() === wanted[prompt]!.join()).length;
      const total = shared.reduce((sum, count) => sum + count, 0);
      const all = wanted.reduce((sum, { length }) => sum + length, 0);
      table.push([name, like, ...setting.split(' '), `${same} of ${own.length}`, `${total} of ${all}`]);
    }
  }
  printTable(table);
}

async function decodeAll(runtime: Runtime): Promise<Answers> {
  const model = await loadModel(bundledTarget, { runtime });
  const drafter = await loadDrafter(join(dirname(bundledTarget), 'eagle3'), { target: model });
  const answers = new Map<string, number[][]>();
  for (const sampling of samplings)
    for (const kind of kinds) {
      const own: number[][] = [];
      for (const [seed, promptIds] of prompts.entries()) {
        const request = { promptIds, maxNewTokens, sampling, seed, stopIds: [] };
        const policy = parseDraftPolicy(kind === 'plain' ? 'chain:1' : kind);
        if (policy.kind === 'auto') continue;
        const { tokenIds } =
          kind === 'plain'
            ? await decodePlain(model, request)
            : await decodeSpeculative(model, drafter, {
                ...{ ...request, policy: always(resolvePolicy(policy, drafter)) },
              });
        own.push([...tokenIds]);
      }
      answers.set(`${JSON.stringify(sampling)} ${kind}`, own);
    }
  return answers;
}

function countShared(left: readonly number[], right: readonly number[]): number {
  const first = left.findIndex((token, at) => token !== right[at]);
  return first < 0 ? Math.min(left.length, right.length) : first;
}
