/** report.html and report.md of a training run, made from its result alone. */
import { join } from 'node:path';
import type { Chapter } from '../page.js';
import { framePage } from '../page.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import {
  acceptedLengthText,
  changeText,
  durationText,
  groupThousands,
  percentText,
} from '../../core/number-text.js';
import { writeWhole } from '../audit/write-reports.js';
import { drawLengthCurve, drawLevels, drawLoss, drawPlain, drawReached } from './training-charts.js';
import type { LengthLine, UpdateLine } from '../../train/loop/training-log.js';
import {
  describeEnd,
  describeOutcome,
  describeSubject,
  describeTexts,
  levelHeadings,
  listFacts,
  listLengths,
  listLevels,
  renderTrainingMarkdown,
} from './training-markdown.js';
import type { TrainingResult } from '../../train/training-result.js';

export interface TrainingReports {
  readonly html: string;
  readonly markdown: string;
}

/**
 * @example
 * if (outcome.status === 'complete') await writeTrainingReports(outcome.folder, outcome.result);
 */
export async function writeTrainingReports(folder: string, result: TrainingResult): Promise<TrainingReports> {
  const paths = { html: join(folder, 'report.html'), markdown: join(folder, 'report.md') };
  await writeWhole(paths.html, renderTrainingHtml(result));
  await writeWhole(paths.markdown, renderTrainingMarkdown(result));
  return paths;
}

export function renderTrainingHtml(result: TrainingResult): string {
  const updates = result.log.filter((line): line is UpdateLine => line.kind === 'update');
  const lengths = result.log.filter((line): line is LengthLine => line.kind === 'length');
  return framePage({
    title: `Mistletoe training of ${result.system} for ${result.target.name}`,
    brand: 'Mistletoe training',
    opening: { id: 'outcome', name: 'the outcome', content: drawOutcome(result) },
    chapters: [
      ...drawAcceptance(result, lengths),
      ...(updates.length === 0 ? [] : drawLearning(result, updates)),
      { id: 'setup', name: 'Setup', content: drawSetup(result) },
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  });
}

function drawOutcome(result: TrainingResult): Markup {
  const { lengths, updates, elapsedMs, data } = result;
  const isBetter = lengths !== undefined && lengths.best.length > lengths.first.length;
  return fragment`<div class="verdict ${isBetter ? 'robust' : 'inconclusive'}" id="outcome">
<h1>${describeOutcome(result)}</h1>
<p class="headline">${describeSubject(result)}: ${describeEnd(result)}.</p>
<p class="meaning">${describeMeaning(result)}</p>
<div class="figures">
${lengths === undefined ? null : figure(changeText(lengths.best.length / lengths.first.length - 1), 'accepted length, best against before')}
${figure(groupThousands(updates), lengths === undefined ? 'updates' : `updates, the best after ${groupThousands(lengths.best.update)}`)}
${figure(groupThousands(data.training.learntTokens), `tokens to foresee in ${groupThousands(data.training.examples)} texts`)}
${figure(durationText(elapsedMs), 'of training')}
</div>
</div>`;
}

function figure(value: string, label: string): Markup {
  return fragment`<div><b>${value}</b><span>${label}</span></div>`;
}

function describeMeaning({ lengths, settings, data }: TrainingResult): string {
  if (lengths === undefined)
    return 'No text was held out, so nothing says how well the drafter foresees what it has not seen: mistletoe bench measures that.';
  const measured = `Measured on ${data.heldOut.examples} texts that were not trained on, along the target’s answers, with drafts of ${settings.chain} tokens.`;
  const { best, last } = lengths;
  if (best.update === 0) return `${measured} No update made it better: best/ is what the run began with.`;
  const isStillRising = best.update === last.update;
  return `${measured} ${
    isStillRising
      ? 'The last measurement is the best one: more updates, or more texts, may bring more.'
      : 'Later updates did not bring more: best/ is from before them.'
  }`;
}

function drawAcceptance(result: TrainingResult, lines: readonly LengthLine[]): Chapter[] {
  const { lengths, settings } = result;
  if (lengths === undefined) return [];
  const depths = Array.from({ length: settings.chain }, (_, index) => index + 1);
  const content = fragment`<h2>How much is accepted</h2>
<p class="lead">Tokens that a step of decoding brings on held-out texts: those of the draft that the target would have
written, and one of its own. 1 is no help at all.</p>
<div class="card"><div class="scroll"><table><thead><tr><th></th><th>accepted length</th><th>change</th><th>after update</th>${depths.map((depth) => fragment`<th>token ${depth}</th>`)}</tr></thead>
<tbody>${listLengths(result).map(
    ([name, line]) =>
      fragment`<tr class="${name === 'best' ? 'clean' : ''}"><th>${name}</th><td>${acceptedLengthText(line.length)}</td><td>${name === 'before' ? '–' : changeText(line.length / lengths.first.length - 1)}</td><td>${groupThousands(line.update)}</td>${line.reached.map((share) => fragment`<td>${percentText(share)}</td>`)}</tr>`,
  )}</tbody></table></div></div>
<div class="grid">
${drawCard('Accepted length after each measurement', drawLengthCurve(lines, lengths))}
${drawCard('Steps that accept the draft up to each depth', drawReached(lengths))}
</div>`;
  return [{ id: 'acceptance', name: 'Acceptance', content }];
}

function drawLearning(result: TrainingResult, updates: readonly UpdateLine[]): Chapter[] {
  const content = fragment`<h2>How it learnt</h2>
<p class="lead">Thin lines are single updates, thick ones their neighbourhood. The loss is what was made smaller, with
the weights of its parts; beside it, what each drafted token of a chain costs by itself. A loss that still falls while the
accepted length does not says that the texts are learnt by heart: give more of them.</p>
<div class="grid">
${drawCard('Loss', drawLoss(updates))}
${drawCard('Cross-entropy of each drafted token', drawLevels(updates))}
${drawCard('Learning rate', drawPlain(updates, { name: 'rate', label: '↑ learning rate' }))}
${drawCard('Length of the gradient before clipping', drawPlain(updates, { name: 'norm', label: '↑ gradient norm' }))}
</div>
${drawLevelTable(listLevels(result))}`;
  return [{ id: 'learning', name: 'Learning', content }];
}

function drawLevelTable(levels: readonly (readonly string[])[]): Content {
  if (levels.length === 0) return null;
  return fragment`<div class="card"><div class="scroll"><table><thead><tr><th>drafted</th>${levelHeadings.map((heading) => fragment`<th>${heading}</th>`)}</tr></thead>
<tbody>${levels.map(([name, ...cells]) => fragment`<tr><th>${name}</th>${cells.map((cell) => fragment`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>
<p class="soft small">Cross-entropy is a mean over the rows that count. Deeper tokens have fewer rows: drafts end with their
text, and only tokens of the draft vocabulary count.</p></div>`;
}

function drawCard(caption: string, chart: Content): Markup {
  return fragment`<figure class="card"><figcaption><b>${caption}</b></figcaption>${chart}</figure>`;
}

function drawSetup(result: TrainingResult): Markup {
  return fragment`<h2>Data, settings and machine</h2>
<div class="card"><dl class="facts">${listFacts(result).map(([name, value]) => fragment`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
<p class="soft small">The same request on the same machine gives the same weights, byte for byte, however often the run was
interrupted.</p></div>
<div class="limits"><h3>What this report does not say</h3><ul>
<li>Held-out texts come from the same file as those that were trained on: on other questions drafts may be accepted less. ${describeTexts(result)}.</li>
<li>The accepted length is of greedy chains along the target’s answers; trees accept more, drawn answers less. mistletoe bench measures it with speed.</li>
<li>Nothing here says how the drafter fares under attack: mistletoe audit does.</li>
</ul></div>`;
}
