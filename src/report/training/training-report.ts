/** report.html and report.md of a training run, made from its result alone. */
import { join } from 'node:path';
import { changeText, durationText, groupThousands } from '../../core/number-text.js';
import type { LengthLine, UpdateLine } from '../../train/loop/training-log.js';
import type { TrainingResult } from '../../train/training-result.js';
import { writeWhole } from '../audit/write-reports.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';
import type { Chapter, Opening } from '../page.js';
import { drawCard, drawFigure, framePage } from '../page.js';
import { factsHtml, tableHtml } from '../table.js';
import { drawLengthCurve, drawLevels, drawLoss, drawReached, drawValue } from './training-charts.js';
import {
  describeEnd,
  describeOutcome,
  describeSubject,
  describeTexts,
  lengthTable,
  levelLegend,
  levelTable,
  listFacts,
  minHeldOutTexts,
  renderTrainingMarkdown,
} from './training-markdown.js';

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
  return framePage({
    title: `Mistletoe training of ${result.system} for ${result.target.name}`,
    brand: 'Mistletoe training',
    opening: describeOpening(result),
    chapters: [
      ...drawAcceptance(result),
      ...(updates.length === 0 ? [] : [drawLearning(result, updates)]),
      { id: 'setup', name: 'Setup', content: drawSetup(result) },
    ],
    imprint: `Mistletoe ${result.version} · ${result.schema}`,
  });
}

function describeOpening(result: TrainingResult): Opening {
  const { lengths, updates, elapsedMs, data } = result;
  const measured = result.log.filter((line): line is LengthLine => line.kind === 'length');
  const isEnough = data.heldOut.examples >= minHeldOutTexts;
  const isBetter = isEnough && lengths !== undefined && lengths.best.length > lengths.first.length;
  return {
    id: 'outcome',
    tone: isBetter ? 'robust' : 'inconclusive',
    label: isBetter ? 'Trained' : lengths === undefined || !isEnough ? 'Not decided' : 'No gain',
    sentence: describeOutcome(result),
    picture: lengths === undefined ? null : drawLengthCurve(measured, lengths),
    details: fragment`<p class="meaning">${describeSubject(result)}: ${describeEnd(result)}. ${describeMeaning(result)}</p>
<div class="figures">
${lengths === undefined ? null : drawFigure(changeText(lengths.best.length / lengths.first.length - 1), 'accepted length, best against before', `${data.heldOut.examples} texts, no interval`)}
${drawFigure(groupThousands(updates), lengths === undefined ? 'updates' : `updates, the best after ${groupThousands(lengths.best.update)}`)}
${drawFigure(groupThousands(data.training.learntTokens), `tokens to learn in ${groupThousands(data.training.examples)} texts`)}
${drawFigure(durationText(elapsedMs), 'of training')}
</div>`,
  };
}

function describeMeaning({ lengths, settings, data }: TrainingResult): string {
  if (lengths === undefined)
    return 'No text was held out, so this report cannot say how well the drafter predicts unseen text: mistletoe bench measures that.';
  const { best, last } = lengths;
  const measured = `Measured on ${data.heldOut.examples} texts that were not trained on, along the target’s answers, with drafts of ${settings.chain} tokens.`;
  if (best.update === 0) return `${measured} No update improved it: best/ is the starting point.`;
  return best.update === last.update
    ? `${measured} The last measurement is the best one: more updates or more texts may help.`
    : `${measured} Later updates did not help: best/ is from before them.`;
}

function drawAcceptance(result: TrainingResult): Chapter[] {
  const table = lengthTable(result);
  if (table === undefined || result.lengths === undefined) return [];
  const content = fragment`<h2>How many draft tokens are accepted</h2>
<p class="lead">Tokens per step on held-out texts: accepted draft tokens plus the target’s own. At 1, drafting does not help.</p>
<div class="card">${tableHtml(table, 'Accepted length before and after training')}</div>
${drawCard('Steps that accept the draft up to each depth', drawReached(result.lengths))}`;
  return [{ id: 'acceptance', name: 'Acceptance', content }];
}

function drawLearning(result: TrainingResult, updates: readonly UpdateLine[]): Chapter {
  const levels = levelTable(result);
  const content = fragment`<h2>Loss and learning rate</h2>
<p class="lead">Thin lines are single updates, thick lines are smoothed. The loss is the weighted objective; the
cross-entropy shows each drafted token separately. If the loss falls while the accepted length does not rise, the
drafter memorizes its texts: train on more of them.</p>
<div class="grid">
${drawCard('Loss', drawLoss(updates))}
${drawCard('Cross-entropy of each drafted token', drawLevels(updates))}
${drawCard('Learning rate', drawValue(updates, 'rate', 'learning rate'))}
${drawCard('Gradient norm before clipping', drawValue(updates, 'norm', 'gradient norm'))}
</div>
${levels === undefined ? null : fragment`<div class="card">${tableHtml(levels, 'Cross-entropy by drafted token')}<p class="soft small">${levelLegend}</p></div>`}`;
  return { id: 'learning', name: 'Learning', content };
}

function drawSetup(result: TrainingResult): Markup {
  return fragment`<h2>Data, settings and machine</h2>
<div class="card">${factsHtml(listFacts(result))}
<p class="soft small">The same request on the same machine gives the same weights, byte for byte, even if the run was
interrupted.</p></div>
<div class="limits"><h3>Limits of this report</h3><ul>
<li>Held-out texts come from the same file as the training texts: on other questions drafts may be accepted less. ${describeTexts(result)}.</li>
<li>The accepted length is for greedy chains along the target’s answers; trees accept more, sampling accepts less. mistletoe bench measures both, with speed.</li>
<li>This report does not say how the drafter behaves under attack: mistletoe audit does.</li>
</ul></div>`;
}
