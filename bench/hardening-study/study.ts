/**
 * What hardening reaches on the bundled drafters, and at what price. Variants of the recipe are hardened for some time; each
 * of them, all of the way or blended with the weights before, is audited on some prompts, and its clean length measured on
 * many. Per drafter the one with the smallest drop whose price is bearable is then proved on prompts that nothing was chosen
 * by, beside random suffixes: a fresh audit, another objective, ten times the steps.
 * The parts are shared out among processes, which may share one GPU (start its multi-process service before:
 * `nvidia-cuda-mps-control -d`). Everything lies under out/hardening, in the folder of --name: what is finished is not done
 * again, and what has to stop after --seconds says what it knows.
 * Run: npm run bench:hardening-study [-- --variants spread,... --drafters eagle3,sps --processes 2 --device cpu
 *   --questions FILE --answers FILE --prompts FILE --plan FILE --preset standard --audit-steps 100 --per-set 8
 *   --curve-per-set 8 --clean-per-set 36 --stronger-per-set 4 --dearest 0.02 --harden-seconds 1e6 --seconds 1e6 --name study]
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { DrafterResult, Interval } from '../../src/audit/result.js';
import { packageRoot } from '../../src/decode/bundled-models.js';
import type { DrafterRole } from '../../src/train/harden/hardening-result.js';
import { auditNames } from '../../src/train/harden/hardening-settings.js';
import { JobPool } from './job-pool.js';
import type { Candidate, Chain, CleanLength, Study } from './jobs.js';
import { blendFolder } from './jobs.js';
import { StudyParts } from './study-parts.js';
import { readPrompts } from './study-prompts.js';
import { compareDrafters, comparePrices, nameOf, printComparison, showInterval } from './study-words.js';
import type { StudiedVariant } from './variants.js';
import { firstVariants, laterVariants } from './variants.js';

const text = (value: string) => ({ type: 'string', default: value }) as const;
const { values: given } = parseArgs({
  options: {
    variants: text(laterVariants.map(({ name }) => name).join()),
    ...{ drafters: text('eagle3,sps'), processes: text('2'), device: text('cpu'), name: text('study') },
    questions: text(join(packageRoot, '../shared/data/train.jsonl')),
    ...{ answers: text(''), prompts: text(''), plan: text(''), preset: text('standard') },
    ...{ 'audit-steps': text(''), 'per-set': text('8'), 'curve-per-set': text('8') },
    ...{ 'clean-per-set': text('36'), 'stronger-per-set': text('4'), dearest: text('0.02') },
    ...{ seconds: text('1e6'), 'harden-seconds': text('1e6') },
  },
});
const folder = join(packageRoot, 'out/hardening', given.name);
mkdirSync(folder, { recursive: true });
const study: Study = {
  ...{ folder, device: given.device, threads: 1, data: given.questions, preset: given.preset },
  answers: given.answers === '' ? undefined : given.answers,
  audit: given['audit-steps'] === '' ? undefined : { steps: Number(given['audit-steps']) },
};
const plan =
  given.plan === ''
    ? [...firstVariants, ...laterVariants]
    : (JSON.parse(readFileSync(given.plan, 'utf8')) as readonly StudiedVariant[]);
const variants = plan.filter(({ name }) => given.plan !== '' || given.variants.split(',').includes(name));
const prompts = await readPrompts(given.prompts, {
  ...{ proof: Number(given['per-set']), curve: Number(given['curve-per-set']) },
  clean: Number(given['clean-per-set']),
});
const strongerPrompts = prompts.proof.slice(0, 3 * Number(given['stronger-per-set']));
const pool = new JobPool(study, Number(given.processes), Number(given.seconds), tell);
const parts = new StudyParts(study, pool, tell);

for (const outcome of await Promise.allSettled(given.drafters.split(',').map(studyDrafter))) {
  if (outcome.status === 'fulfilled') continue;
  // One drafter's failure is not the other's.
  console.log(outcome.reason);
  process.exitCode = 1;
}
pool.end();
tell('done');

function tell(line: string): void {
  process.stderr.write(`${(performance.now() / 1000).toFixed(0)} s ${line}\n`);
}

function write(line: unknown): void {
  appendFileSync(join(folder, 'study.jsonl'), `${JSON.stringify(line)}\n`);
}

function beforeOf(drafter: string): Candidate {
  return { drafter, chain: null, rounds: 0, blend: 1 };
}

interface Judged {
  readonly candidate: Candidate;
  readonly price: Interval | undefined;
  /** Of the drop before. */
  readonly left: Interval | undefined;
}

async function studyDrafter(drafter: string): Promise<void> {
  const before = look(beforeOf(drafter));
  const own = variants.filter((variant) => variant.drafters?.includes(drafter) ?? true);
  const judged = await Promise.all(
    own.flatMap(({ roles = ['hardened'], blends = [1], ...variant }) =>
      roles.map(async (role): Promise<readonly Judged[]> => {
        const chain: Chain = { drafter, variant, role };
        const rounds = await parts.harden(chain, 1000 * Number(given['harden-seconds']));
        write({ drafter, variant, role, rounds });
        if (rounds.length === 0) return [];
        return Promise.all(
          blends.map((blend) => judge({ drafter, chain, rounds: rounds.length, blend }, before)),
        );
      }),
    ),
  );
  const best = chooseBest(judged.flat().filter(({ candidate }) => candidate.chain?.role === 'hardened'));
  if (best === undefined) return;
  console.log(`\n**${drafter}: ${nameOf(best)} is to be proved** (${blendFolder(study, best)})`);
  await prove(best);
}

interface Seen {
  readonly audited: DrafterResult | undefined;
  readonly clean: readonly CleanLength[];
}

async function look(candidate: Candidate): Promise<Seen> {
  const audited = parts.audit(candidate, 'fresh', prompts.curve);
  const clean = parts.measure(candidate, prompts.clean);
  return { audited: await audited, clean: await clean };
}

async function judge(candidate: Candidate, before: Promise<Seen>): Promise<Judged> {
  const [then, now] = await Promise.all([before, look(candidate)]);
  const { drafter, chain } = candidate;
  const price = comparePrices(then.clean, now.clean);
  const comparison = compareDrafters('fresh', [
    ['before', then.audited],
    [chain!.role, now.audited],
  ]);
  printComparison(`${drafter}, ${nameOf(candidate)}`, comparison);
  console.log(`- clean length on further prompts: loss ${showInterval(price)}`);
  write({ candidate, price, comparison });
  return { candidate, price, left: comparison.changes[0]?.dropRatio ?? undefined };
}

/** The smallest drop that is bearable; where none is, the cheapest. */
function chooseBest(judged: readonly Judged[]): Candidate | undefined {
  const priceOf = ({ price }: Judged): number => price?.estimate ?? Infinity;
  const leftOf = ({ left }: Judged): number => left?.estimate ?? Infinity;
  const bearable = judged.filter((one) => priceOf(one) <= Number(given.dearest));
  const keyOf = bearable.length > 0 ? leftOf : priceOf;
  const [best] = [...(bearable.length > 0 ? bearable : judged)].sort((a, b) => keyOf(a) - keyOf(b));
  return best?.candidate;
}

async function prove(hardened: Candidate): Promise<void> {
  const { drafter, chain, rounds, blend } = hardened;
  // As many rounds as the hardened one had.
  const { variant } = chain!;
  const same = { ...variant, hardening: { ...variant.hardening, rounds } };
  const baseline: Chain = { drafter, variant: same, role: 'random' };
  const random = parts
    .harden(baseline)
    .then((records): Candidate => ({ drafter, chain: baseline, rounds: records.length, blend }));
  const before = beforeOf(drafter);
  const roles: readonly (readonly [DrafterRole, Promise<Candidate>])[] = [
    ['before', Promise.resolve(before)],
    ['hardened', Promise.resolve(hardened)],
    ['random', random],
  ];
  const proofs = auditNames.map(async (audit) => {
    const some = audit === 'stronger' ? strongerPrompts : prompts.proof;
    const results = await Promise.all(
      roles.map(
        async ([role, candidate]) => [role, await parts.audit(await candidate, audit, some)] as const,
      ),
    );
    const comparison = compareDrafters(audit, results);
    printComparison(`proof: ${drafter}, ${nameOf(hardened)}`, comparison);
    write({ proof: hardened, comparison });
  });
  const price = random.then(async (made) => {
    const [then, now] = [parts.measure(before, prompts.clean), parts.measure(made, prompts.clean)];
    const lost = comparePrices(await then, await now);
    console.log(
      `\n- ${drafter}, random suffixes: clean length on further prompts: loss ${showInterval(lost)}`,
    );
  });
  await Promise.all([...proofs, price]);
}
