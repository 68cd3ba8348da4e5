/**
 * Which objective, which projection, how much of the answer: every variant searches the same prompts from the same starts
 * with the effort of the quick preset, and what it finds is measured along the same 64 tokens of the clean answer. A
 * suffix that does not keep the answer counts as none, and none as no drop. All objectives x projections x windows, and
 * single changes beside them.
 * With MISTLETOE_DEVICE=cuda on a GPU, in float32: a search goes another way where sums round differently.
 * Run: npm run bench:ablation [-- PROMPTS_PER_SET [THREADS [DRAFTER[,DRAFTER] [PART_OF_A_VARIANT'S_NAME ...]]]]
 */
import { drawRandomSuffix, fluentSuffix, listAllowedTokens } from '../src/audit/arms/controls.js';
import { preparePrompt } from '../src/audit/arms/audit-prompt.js';
import { decodeFreely } from '../src/audit/arms/measure-arm.js';
import { createObjective, parseObjective } from '../src/audit/search/objectives.js';
import { judgeAnswer } from '../src/audit/arms/preservation.js';
import { parseProjection } from '../src/audit/search/projection.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import type { SearchPrograms } from '../src/audit/search/search-programs.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { searchSuffix } from '../src/audit/search/search.js';
import type { Drive } from '../src/audit/search/search-problem.js';
import type { AuditSettings } from '../src/audit/settings.js';
import { presets } from '../src/audit/settings.js';
import { createRandom } from '../src/core/random.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { bootstrapInterval } from '../src/measure/bootstrap.js';
import { describeMachine } from '../src/measure/machine.js';
import { testSignedRanks } from '../src/measure/wilcoxon.js';
import { createRuntime } from '../src/runtime/create-runtime.js';
import type { Prompt } from '../src/text/prompts/prompt-set.js';
import { choosePrompts, dropText } from './saved-audit.js';
import { printTable } from './stopwatch.js';

interface Variant {
  readonly name: string;
  readonly settings?: Partial<AuditSettings>;
  readonly drive?: Drive;
}

const draftLevels = 4;
const seed = 0;
const windows = [64, 20] as const;
const objectives = [
  'margin',
  'total-variation',
  'expected-length',
  'surprisal',
  'kl',
  'reverse-kl',
  'one-sided',
] as const;
const directions = [
  { projection: 'direction', lambda: 1, name: 'direction 1' },
  { projection: 'none', lambda: 1, name: 'no projection' },
  { projection: 'direction', lambda: 2, name: 'direction 2' },
] as const;
// A step then takes a backward pass for every position of the answer.
const subspace = [{ projection: 'subspace', lambda: 1, name: 'subspace' }] as const;
const { objective, window, lambda, moves, merges } = presets.paper;
const variants: readonly Variant[] = [
  { name: 'no gradient, no objective', drive: 'undirected' },
  { name: 'the paper’s setting', settings: { objective, window, lambda, moves, merges } },
  { name: 'margin, four levels deep', settings: { draftDepth: draftLevels } },
  { name: 'margin, one-token moves', settings: { moves: 1, merges: 1 } },
  ...listProduct(directions),
  ...listProduct(subspace), // last, because it takes longest
];

function listProduct(projections: typeof directions | typeof subspace): Variant[] {
  return windows.flatMap((window) =>
    projections.flatMap(({ projection, lambda, name }) =>
      objectives.map((objective) => ({
        name: `${objective}, ${name}, window ${window}`,
        settings: {
          ...{ window, projection, lambda, objective },
          // The margin looks one level deep, as in the presets, and the others at every level of the drafts.
          ...(objective === 'margin' ? {} : { draftDepth: draftLevels }),
        },
      })),
    ),
  );
}

const [perSet = '2', threads = '2', named = 'sps,eagle3', ...parts] = process.argv.slice(2);
const drafters = named.split(',');
const chosen = variants.filter(({ name }) => parts.length === 0 || parts.some((part) => name.includes(part)));
const device = process.env.MISTLETOE_DEVICE ?? 'cpu';
const { processor, architecture } = describeMachine();
console.log(
  `${device}, ${processor} (${architecture}), ${threads} threads, ${perSet} prompts of each set, chain:4\n`,
);

const prompts = [...(await choosePrompts(Number(perSet), presets.quick.shortestAnswer)).values()].flat();
const runtime = await createRuntime({ device, dtype: 'float32', threads: Number(threads) });
const target = await openTarget(bundledTarget, { runtime });
const { vocabularySize } = target.model.configuration;
const allowed = listAllowedTokens(target.tokenizer, vocabularySize, { allowNonAscii: false });
for (const name of drafters) {
  const drafter = await loadDrafter(findDrafter(name), {
    target: target.model,
    tokenizer: target.tokenizer,
  });
  const rows: string[][] = [];
  for (const variant of chosen) {
    rows.push([name, ...(await measureVariant(drafter, variant))]);
    console.error(rows.at(-1)!.join(' | '));
  }
  printTable([['drafter', 'search', 'n', 'clean', 'found', 'drop', 'no suffix', 'p, clean'], ...rows]);
}
await runtime.dispose();

interface Measured {
  readonly clean: number;
  readonly found: number;
  readonly isEmpty: boolean;
}

async function measureVariant(drafter: Drafter, { name, settings, drive }: Variant): Promise<string[]> {
  const searched: AuditSettings = { ...presets.quick, ...settings };
  const models = { target: target.model, drafter };
  const compile = (depth: number, objective: AuditSettings['objective']): SearchPrograms =>
    compileSearch(models, createObjective(parseObjective(objective), Math.min(depth, drafter.maximumDepth)), {
      ...searched,
      draftLevels,
    });
  const programs = compile(searched.draftDepth, searched.objective);
  const measuring = compile(1, 'margin');
  const measured: Measured[] = [];
  for (const prompt of prompts)
    measured.push(
      await measurePrompt(drafter, prompt, searched, drive ?? 'degradation', programs, measuring),
    );
  const change = ({ clean, found }: Measured): number => 1 - found / clean;
  const meanChange = (all: readonly Measured[]): number =>
    all.reduce((total, each) => total + change(each), 0) / all.length;
  const mean = (key: 'clean' | 'found'): string =>
    (measured.reduce((total, each) => total + each[key], 0) / measured.length).toFixed(2);
  const lengths = (key: 'clean' | 'found'): number[] => measured.map((each) => each[key]);
  return [
    name,
    String(measured.length),
    mean('clean'),
    mean('found'),
    dropText(bootstrapInterval(measured, meanChange, { seed })),
    String(measured.filter(({ isEmpty }) => isEmpty).length),
    testSignedRanks(lengths('found'), lengths('clean'), 'less').pValue.toFixed(3),
  ];
}

async function measurePrompt(
  drafter: Drafter,
  given: Prompt,
  settings: AuditSettings,
  drive: Drive,
  programs: SearchPrograms,
  measuring: SearchPrograms,
): Promise<Measured> {
  const models = { target: target.model, drafter };
  const prompt = await preparePrompt(target, given, { ...settings, seed });
  const whole = await preparePrompt(target, given, { ...settings, window: presets.quick.window, seed });
  const state = await readPromptState(models, prompt.beforeIds);
  const scorer = new Scorer(target, models, programs, prompt, state);
  const ruler = new Scorer(target, models, measuring, whole, state);
  const starting = createRandom(seed, 'starts', given.id);
  const fluent = await fluentSuffix(target, prompt, settings.suffixLength);
  const starts: (readonly number[])[] = fluent === undefined ? [] : [fluent];
  while (starts.length < settings.starts)
    starts.push(await drawRandomSuffix(target, prompt, allowed, settings.suffixLength, starting));
  const projection = parseProjection(settings.projection, settings.lambda);
  const { finalists } = await searchSuffix(
    { scorer, allowed, starts, random: createRandom(seed, 'search', given.id) },
    { ...settings, projection, drive },
  );
  const [{ length: clean } = { length: 1 }] = await ruler.score([], [{ suffixIds: [], first: 0 }]);
  let found = clean;
  let isEmpty = true;
  const policy = always(resolvePolicy({ kind: 'chain', length: draftLevels }, drafter));
  for (const { suffixIds } of finalists) {
    const setup = { target, drafter, policy, prompt: whole, ...settings, seed };
    const answer = await decodeFreely(setup, suffixIds);
    if (!judgeAnswer(whole, answer, settings).accepted) continue;
    const [{ length } = { length: clean }] = await ruler.score(suffixIds, [{ suffixIds, first: 0 }]);
    if (length < found) [found, isEmpty] = [length, false];
  }
  return { clean, found, isEmpty };
}
