/** One request in the table: a row that opens to show all that is known about it. */
import type { ShownRequest } from '../../guard/metrics/page-state.js';
import { acceptedLengthText, durationText, percentText } from '../../core/number-text.js';
import type { PageElement } from './browser.js';
import type { Child, Pen } from './pen.js';
import { drawBoxes, drawColumns, listSteps } from './token-strip.js';
import {
  amountText,
  clockText,
  endingWords,
  evidenceMeanings,
  evidenceWords,
  lengthText,
  momentText,
  verdictMeanings,
} from './words.js';

export const columnCount = 9;

/** A body of its own for every request, so that row and opened part stay together. */
export function drawRequest(pen: Pen, request: ShownRequest): PageElement {
  const button = pen.html(
    'button',
    { type: 'button', class: 'opener', 'aria-expanded': 'false', title: momentText(request.endedMs) },
    pen.html('time', { datetime: momentText(request.endedMs) }, clockText(request.endedMs)),
  );
  const body = pen.html('tbody', { class: request.verdict.name }, drawRow(pen, request, button));
  let opened: PageElement | null = null;
  button.addEventListener('click', () => {
    if (opened === null) {
      opened = pen.html(
        'tr',
        { class: 'opened' },
        pen.html('td', { colspan: columnCount }, drawFacts(pen, request)),
      );
      body.append(opened);
    } else {
      opened.remove();
      opened = null;
    }
    button.setAttribute('aria-expanded', String(opened !== null));
  });
  return body;
}

function drawRow(pen: Pen, request: ShownRequest, button: PageElement): PageElement {
  const { speculation, ending, upstream, verdict } = request;
  const cell = (kind: string | null, ...children: readonly Child[]): PageElement =>
    pen.html('td', { class: kind }, ...children);
  const steps = speculation === null ? null : listSteps(speculation);
  return pen.html(
    'tr',
    {},
    pen.html('th', { scope: 'row' }, button),
    cell('name', pen.html('span', { title: request.tenant }, request.tenant)),
    cell('name', pen.html('span', { title: `${request.model} ${request.route}` }, request.model)),
    cell('number', amountText(request.completionTokens)),
    cell('number length', lengthText(request)),
    cell(
      null,
      pen.html('span', { class: `tag ${verdict.name}`, title: verdict.reason }, verdict.name),
      ending === 'complete' ? null : [' ', pen.html('span', { class: 'tag ending' }, endingWords[ending])],
    ),
    cell(null, upstream),
    speculation === null
      ? cell('soft', 'no telemetry')
      : cell(
          speculation.evidence,
          pen.html(
            'span',
            { title: evidenceMeanings[speculation.evidence] },
            evidenceWords[speculation.evidence],
          ),
        ),
    cell('strip', steps === null ? pen.html('span', { class: 'faint' }, '–') : drawColumns(pen, steps)),
  );
}

function drawFacts(pen: Pen, request: ShownRequest): PageElement {
  const { speculation } = request;
  const steps = speculation === null ? null : listSteps(speculation);
  const facts = listFacts(request).map(([name, value]) => [
    pen.html('dt', {}, name),
    pen.html('dd', {}, value),
  ]);
  return pen.html(
    'div',
    {},
    steps === null ? null : drawBoxes(pen, steps),
    pen.html('dl', { class: 'facts' }, facts),
  );
}

export function listFacts(request: ShownRequest): readonly (readonly [string, string])[] {
  const { speculation, completionTokens, totalMs, firstByteMs, ending, status } = request;
  const rate = completionTokens === null || totalMs <= 0 ? null : (1000 * completionTokens) / totalMs;
  const speed = rate === null ? '' : `, ${acceptedLengthText(rate)} tokens a second`;
  const first = firstByteMs === null ? '' : `, first byte after ${durationText(firstByteMs)}`;
  return [
    ['request', request.id],
    ['ended', momentText(request.endedMs)],
    ['route', request.route],
    ['engine', request.engine === 'unknown' ? 'not recognised' : request.engine],
    ['answer', `${endingWords[ending]}, status ${status}${request.isStream ? ', streamed' : ''}`],
    ['tokens', `${amountText(request.promptTokens)} in, ${amountText(completionTokens)} out`],
    ['time', `${durationText(totalMs)}${first}${speed}`],
    ['verdict', `${request.verdict.name}: ${verdictMeanings[request.verdict.name]}`],
    ['reason', request.verdict.reason],
    ...(speculation === null
      ? [['speculation', 'the engine said nothing, and nothing could be estimated'] as const]
      : listSpeculation(speculation)),
  ];
}

function listSpeculation(
  speculation: NonNullable<ShownRequest['speculation']>,
): readonly (readonly [string, string])[] {
  const { evidence, steps, accepted, proposed, draftLength, histogram, isTree } = speculation;
  const share =
    proposed === null || proposed === 0 || isTree ? '' : ` (${percentText(accepted / proposed)} accepted)`;
  const drafts =
    (draftLength === null ? '' : `up to ${draftLength} tokens a step`) + (isTree ? ', in trees' : '');
  const counts = histogram?.map((count, depth) => `${depth}: ${amountText(count)}`).join(' · ');
  return [
    ['evidence', `${evidenceWords[evidence]}: ${evidenceMeanings[evidence]}`],
    ['steps', amountText(steps)],
    ['draft tokens', `${amountText(accepted)} accepted of ${amountText(proposed)} proposed${share}`],
    ...(drafts === '' ? [] : [['drafts', drafts.replace(/^, /, '')] as const]),
    ...(counts === undefined ? [] : [['steps by accepted', counts] as const]),
  ];
}
