import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { describeMachine } from '../../runs/run-device.js';
import { defaultSettings } from '../../train/settings.js';
import type { LogLine } from '../../train/loop/training-state.js';
import { printReport, renderReportHtml } from '../document.js';
import { createTrainingReport, writeTrainingReports } from './training-report.js';
import type { TrainingResult } from '../../train/train-run.js';
import { findLengths, resultVersion } from '../../train/train-run.js';

const renderHtml = (result: TrainingResult): string => renderReportHtml(createTrainingReport(result));
const renderMarkdown = (result: TrainingResult): string =>
  printReport(createTrainingReport(result), 'markdown');

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const length = (update: number, value: number): LogLine => ({
  ...{ kind: 'length', update, length: value, steps: 100, reached: [(value - 1) / 2, (value - 1) / 2, 0, 0] },
});

function makeLog(updates: number, values: readonly number[]): LogLine[] {
  const every = updates / (values.length - 1);
  return [
    ...values.slice(0, 1).map((value) => length(0, value)),
    ...Array.from({ length: updates }, (_, index): LogLine[] => {
      const update = index + 1;
      const loss = 5 / Math.sqrt(update);
      const line: LogLine = {
        ...{ kind: 'update', update, loss, levels: [loss, loss + 1, loss + 2, loss + 3] },
        ...{ levelRows: [90, 80, 70, 0], norm: 1, rate: 1e-3, tokens: 100 },
      };
      return update % every === 0 ? [line, length(update, values[update / every]!)] : [line];
    }).flat(),
  ];
}

function makeResult(log: readonly LogLine[], changes: Partial<TrainingResult> = {}): TrainingResult {
  const model = { name: 'target', parameterCount: 12_500_000, sha256: 'ab'.repeat(32) };
  const counts = { examples: 90, tokens: 9000, learntTokens: 4149, cut: 0, withoutLearnt: 0 };
  return {
    ...{
      schema: resultVersion,
      version: '1.2.3',
      target: model,
      system: 'eagle3',
      from: undefined,
      targetLayers: undefined,
      parameterCount: 2_500_000,
    },
    data: {
      ...{
        file: '/home/somebody/secret/q.jsonl',
        sha256: 'cd'.repeat(32),
        conversations: 100,
        training: counts,
      },
      ...{ heldOut: { ...counts, examples: 10 }, cutConversations: 0 },
      batches: { batchesPerEpoch: 10, paddingShare: 0.031 },
      draftVocabulary: { size: 2048, coverage: 0.9987 },
    },
    settings: defaultSettings({ system: 'eagle3', maximumDepth: Infinity }),
    ...{ ended: 'steps', updates: log.filter(({ kind }) => kind === 'update').length, log },
    ...{ lengths: findLengths(log), elapsedMs: 61_000, device: 'cpu', machine: describeMachine() },
    ...changes,
  };
}

describe('the report of a training run', () => {
  it('says what it brought, in words, table and six charts', async () => {
    const result = makeResult(makeLog(30, [1.1, 1.6, 2.2, 2.1]));
    const { html, markdown } = await writeTrainingReports(temporary.path, result);
    const page = readFileSync(html, 'utf8');
    expect(page).toContain(
      '<h1>The accepted length rose from 1.10 to 2.20 tokens per step on 10 held-out texts, after 20 updates.</h1>',
    );
    expect(page).toContain('class="verdict robust"');
    expect(page).toContain('Later updates did not help');
    expect(page).toMatch(
      /<b>\+100\s%<\/b><i>95\s% interval \+\d+ to \+\d+\s%<\/i><span>accepted length, best/,
    );
    expect(page.match(/role="img"/g)).toHaveLength(6);
    expect(page).toContain(
      'aria-label="Accepted length on held-out texts: 1.10 before, at best 2.20 after update',
    );
    const text = readFileSync(markdown, 'utf8');
    expect(text).toMatch(/\| best +\| +2\.20 \| +\+100 % \|/);
    expect(text).toContain('99.87 % of the learned tokens');
    const first = ((5 + 5 / Math.SQRT2 + 5 / Math.sqrt(3)) / 3).toFixed(3);
    expect(text).toMatch(new RegExp(`\\| token 1 \\| +${first} \\| +0.929 \\| +2\u202f700 \\|`));
    expect(text).toMatch(/\| token 4 \| +– \| +– \| +0 \|/);
    expect(page).toContain(`<th scope="row">token 1</th><td>${first}</td>`);
    expect(page).toContain('↑ cross-entropy (nats)<');
    expect(text).toContain('texts of similar length together: 3 % of them padding; 3.0 epochs');
  });

  it('says when the last measurement is the best, and when none is better than the start', () => {
    expect(renderHtml(makeResult(makeLog(40, [1.1, 1.6, 2.2])))).toContain('may help');
    expect(renderHtml(makeResult(makeLog(40, [1.5, 1.4, 1.3])))).toContain('best/ is the starting point');
  });

  it('claims nothing from fewer than five held-out texts', () => {
    const result = makeResult(makeLog(30, [1.01, 1.05]));
    const few = { ...result, data: { ...result.data, heldOut: { ...result.data.heldOut, examples: 3 } } };
    const page = renderHtml(few);
    expect(page).toContain('<h1>3 held-out texts are too few to tell whether training helped');
    expect(page).toContain('class="verdict inconclusive"');
    expect(page).not.toContain('class="good"');
  });

  it('does without held-out texts', () => {
    const log = makeLog(3, [1, 1]).filter(({ kind }) => kind === 'update');
    const page = renderHtml(makeResult(log));
    expect(page).toContain('<h1>3 updates; no text was held out');
    expect(page).toContain('No text was held out');
    expect(page.match(/role="img"/g)).toHaveLength(4);
    expect(renderMarkdown(makeResult(log))).toContain('No text was held out: nothing was measured.');
  });

  it('stays small however long the run', () => {
    expect(renderHtml(makeResult(makeLog(20_000, [1.1, 2]))).length).toBeLessThan(300_000);
  });

  it('names no folders, and shows names without obeying them', () => {
    const name = '<script>alert(1)</script>\u001b[31m|`';
    const result = makeResult(makeLog(4, [1, 2]), {
      target: { name, parameterCount: 1, sha256: 'ef'.repeat(32) },
    });
    const [page, text] = [renderHtml(result), renderMarkdown(result)];
    for (const shown of [page, text]) {
      expect(shown).not.toContain('somebody');
      expect(shown).not.toContain('\u001b');
      expect(shown).not.toMatch(/(?<!\\)<script>alert/);
    }
    expect(page).not.toMatch(/\b(?:src|href)="(?!#)/);
  });
});
