/**
 * Does the guard see real attacks? Benign prompts and the suffixes that the audit found (bench/guard-attacks.jsonl) are
 * decoded with each bundled drafter, greedily, with chains of four; a monitor learns from the calibration half, and
 * the held-out half and the attacked prompts are shown to it. Steps are kept under out/guard-traces, so that a second run takes seconds.
 * Run: npm run bench:guard-detection [-- TRAINING_QUESTIONS]
 */
import { bundledDrafters } from '../src/decode/bundled-models.js';
import type { Scored } from './guard-scores.js';
import {
  areaUnderRoc,
  calibrate,
  falseAlarms,
  hypothesisOf,
  meanLengthOf,
  peakOf,
  score,
  thresholdFor,
  tokensUntil,
} from './guard-scores.js';
import {
  campaigns,
  furtherWeeks,
  middle,
  percent,
  shareFound,
  simulate,
  weekTables,
} from './guard-campaigns.js';
import { gateWindow, longestAttack, requestsPerWeek, tenantCount } from './guard-tenants.js';
import type { Found } from './guard-missed.js';
import { countMissed, describeStrength, listMissed } from './guard-missed.js';
import type { Trace } from './guard-traces.js';
import { draftLength, newTokens, planAttacks, planBenign, traceAll } from './guard-traces.js';
import { describeVariants, variantHeader } from './guard-variants.js';
import { printTable } from './stopwatch.js';

const trainingQuestions = Number(process.argv[2] ?? 300);
const rocAt = [0.01, 0.02, 0.05, 0.1, 0.2];

const benignPlans = await planBenign(trainingQuestions);
const rows: Record<'lengths' | 'roc' | 'requests', string[][]> = {
  lengths: [['drafter', 'benign, calibration', 'benign, held out', 'the same prompts, clean', 'attacked']],
  roc: [
    [
      'drafter',
      'area, evidence',
      'area, mean length',
      ...rocAt.map((rate) => `found at ${percent(rate)} false alarms`),
    ],
  ],
  requests: [
    [
      'drafter',
      'evidence: false alarms',
      'found',
      'tokens until then',
      'fixed threshold: false alarms',
      'found',
      'tokens until then',
      'as set up: false alarms',
      'found',
      'tokens until then',
    ],
  ],
};
const all: Found[] = [];
for (const drafter of bundledDrafters) {
  const traces = await traceAll(drafter, [...benignPlans, ...planAttacks(benignPlans, drafter)]);
  const found = judgeRequests(drafter, traces);
  all.push(found);
  simulate(found);
}
printAll();

function judgeRequests(drafter: string, traces: readonly Trace[]): Found {
  const calibration = traces.filter(({ half }) => half === 'calibration');
  const heldOut = traces.filter(({ half }) => half === 'held-out');
  const calibrated = calibrate(calibration);
  const benign = score(
    heldOut.filter(({ kind }) => kind === 'benign'),
    calibrated,
  );
  const attacked = score(
    heldOut.filter(({ kind }) => kind !== 'benign'),
    calibrated,
  );
  const attackedPrompts = new Set(attacked.map(({ trace }) => trace.prompt));
  const mean = (list: readonly Trace[]): string =>
    (list.reduce((sum, trace) => sum + meanLengthOf(trace), 0) / list.length).toFixed(2);
  rows.lengths.push([
    drafter,
    `${mean(calibration)} (${calibration.length})`,
    `${mean(benign.map(({ trace }) => trace))} (${benign.length})`,
    mean(benign.map(({ trace }) => trace).filter(({ prompt }) => attackedPrompts.has(prompt))),
    `${mean(attacked.map(({ trace }) => trace))} (${attacked.length})`,
  ]);

  const evidence = benign.map((each) => each.evidence);
  const lengths = benign.map(({ meanLength }) => -meanLength);
  const above = (rate: number): number => {
    const threshold = thresholdFor(evidence, rate);
    return attacked.filter((each) => each.evidence > threshold).length / attacked.length;
  };
  rows.roc.push([
    drafter,
    areaUnderRoc(
      evidence,
      attacked.map((each) => each.evidence),
    ).toFixed(3),
    areaUnderRoc(
      lengths,
      attacked.map(({ meanLength }) => -meanLength),
    ).toFixed(3),
    ...rocAt.map((rate) => percent(above(rate))),
  ]);

  const threshold = thresholdFor(benign.map(peakOf), falseAlarms);
  const detected = attacked.map((each) => tokensUntil(each, threshold));
  const lengthThreshold = thresholdFor(lengths, falseAlarms);
  const byLength = attacked.map(({ meanLength, trace }) =>
    -meanLength > lengthThreshold ? trace.tokens : undefined,
  );
  const rang = (list: readonly Scored[]): (number | undefined)[] => list.map(({ rangAt }) => rangAt);
  const isGrown = hypothesisOf(calibrated).isGrown;
  rows.requests.push([
    drafter,
    percent(shareFound(benign.map((each) => tokensUntil(each, threshold))), 1),
    percent(shareFound(detected)),
    middle(detected),
    percent(lengths.filter((length) => length > lengthThreshold).length / lengths.length, 1),
    percent(shareFound(byLength)),
    middle(byLength),
    percent(shareFound(rang(benign)), 1),
    percent(shareFound(rang(attacked))) + (isGrown ? '' : ' (baseline still young)'),
    middle(rang(attacked)),
  ]);
  return { drafter, calibration, benign, attacked, detected };
}

function printAll(): void {
  const print = (title: string, table: readonly (readonly string[])[]): void => {
    console.log(`\n${title}\n`);
    printTable(table);
  };
  console.log(
    `Chains of ${draftLength}, greedy, at most ${newTokens} new tokens; ${trainingQuestions} training questions in the calibration.`,
  );
  print('Mean accepted length (requests)', rows.lengths);
  print("ROC: evidence at the request's end", rows.roc);
  print(`Requests at ${percent(falseAlarms)} false alarms, measured on held-out benign ones`, rows.requests);
  print('What else a request could be judged by', [variantHeader, ...all.flatMap(describeVariants)]);
  const { week, weeks, campaigns: newcomers, known, gate } = weekTables;
  const each = `${campaigns} campaigns of at most ${longestAttack} requests`;
  print(`A benign week: ${tenantCount} tenants, ${requestsPerWeek} requests`, week);
  print(`${furtherWeeks} further benign weeks, each from the calibration on`, weeks);
  print(`A newcomer that attacks, where tenants ask from all sets: ${each}`, newcomers);
  print(`A known tenant that attacks, where each asks from one set: ${each}`, known);
  print(`A gate for everybody: mean of the last ${gateWindow} requests`, gate);
  print('Found, by what the suffix leaves of the accepted length', describeStrength(all));
  print('Not found, by drafter and set', countMissed(all));
  print('Not found, each', listMissed(all));
}
