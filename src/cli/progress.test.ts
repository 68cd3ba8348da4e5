import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ProgressMode } from './progress.js';
import { createProgress } from './progress.js';
import type { Output } from './terminal.js';
import { createOutput } from './terminal.js';

interface TestStream extends Output {
  width: number | undefined;
  written: string;
}

function createStream(isTerminal = false): TestStream {
  const output = createOutput({
    isTerminal,
    columns: () => stream.width,
    write: (text) => (stream.written += text),
  });
  const stream: TestStream = { ...output, width: isTerminal ? 80 : undefined, written: '' };
  return stream;
}

function writeRun(mode: ProgressMode, isTerminal = false): string {
  const stream = createStream(isTerminal);
  const progress = createProgress(mode, stream, () => 0);
  progress.start(4, 'bench');
  for (let done = 1; done <= 4; done++) progress.update(done, { set: 'code', tau: 2.5 });
  progress.finish('all measured');
  return stream.written;
}

describe('progress', () => {
  it('writes lines that stay readable in a log', () => {
    expect(writeRun('plain')).toBe(
      [
        'bench: 4 to do',
        'bench: 1/4 (25 %)  set code  tau 2.5',
        'bench: 2/4 (50 %)  set code  tau 2.5',
        'bench: 3/4 (75 %)  set code  tau 2.5',
        'bench: 4/4 (100 %)  set code  tau 2.5',
        'all measured',
        '',
      ].join('\n'),
    );
  });

  it('writes at most ten milestones however long the run is', () => {
    const stream = createStream();
    const progress = createProgress('plain', stream, () => 0);
    progress.start(1000, 'audit');
    for (let done = 1; done <= 1000; done++) progress.update(done);
    const lines = stream.written.trimEnd().split('\n');
    expect(lines).toHaveLength(11);
    expect(lines.at(1)).toBe('audit: 100/1000 (10 %)');
    expect(lines.at(-1)).toBe('audit: 1000/1000 (100 %)');
  });

  it.each([
    ['plain', 'download: 5 kB to do\ndownload: 3 kB/5 kB (60 %)\n'],
    ['bar', '3 kB/5 kB'],
    ['json', '"done":3,"total":5'],
  ] as const)('shows counts to people as they are asked to be shown: %s', (mode, text) => {
    const stream = createStream(mode === 'bar');
    const progress = createProgress(mode, stream);
    progress.start(5, 'download', (value) => `${value} kB`);
    progress.update(3);
    progress.finish();
    expect(stream.written).toContain(text);
  });

  it('draws a bar that clears itself and leaves the summary behind', () => {
    const text = writeRun('bar', true);
    expect(text).toContain('bench');
    expect(text).toContain('4/4');
    expect(text).toContain('set code  tau 2.5');
    expect(text).toMatch(/\u2588{24}/);
    expect(text.endsWith('\u001b[1G\u001b[2Kall measured\n')).toBe(true);
  });

  it('asks each time how wide the terminal is, and never draws beyond', () => {
    const stream = createStream(true);
    const progress = createProgress('bar', stream);
    const draw = (width: number | undefined): string => {
      stream.width = width;
      stream.written = '';
      progress.start(4, 'audit');
      progress.update(4, { drafter: 'eagle3', step: 3 }, ['left 4 min', 'drafter eagle3', 'step 3/40']);
      progress.finish();
      const lines = stream.written.split(/\u001b\[\d+[A-Z]/).filter((line) => line.includes('4/4'));
      expect(lines).toHaveLength(1);
      return lines[0]!;
    };
    expect(draw(100)).toBe(`audit  ${'\u2588'.repeat(24)}  4/4  left 4 min  drafter eagle3  step 3/40`);
    expect(draw(50)).toBe(`audit  ${'\u2588'.repeat(9)}  4/4  left 4 min  drafter eagle3`);
    expect(draw(20)).toBe('4/4  left 4 min');
    expect(draw(undefined)).toBe(draw(80));
  });

  it('leaves cursor, line wrapping and signals as they are', () => {
    const listeners = process.listenerCount('SIGTERM');
    const stream = createStream(true);
    const progress = createProgress('bar', stream);
    progress.start(2, 'bench');
    expect(process.listenerCount('SIGTERM')).toBe(listeners);
    progress.finish();
    expect(stream.written).not.toMatch(/\u001b(\[\?|7|8)/);
  });

  it('chooses by the stream: a bar for a terminal, lines for a file', () => {
    expect(writeRun('auto', false)).toBe(writeRun('plain'));
    expect(writeRun('auto', true)).toContain('\u001b');
    expect(writeRun('plain', true)).not.toContain('\u001b');
  });

  it('writes one JSON object per event', () => {
    const events = writeRun('json')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(events).toHaveLength(6);
    expect(events[0]).toEqual({ event: 'progress-start', label: 'bench', total: 4 });
    expect(events[1]).toEqual({
      event: 'progress-update',
      label: 'bench',
      done: 1,
      total: 4,
      set: 'code',
      tau: 2.5,
    });
    expect(events[5]).toEqual({ event: 'progress-end', label: 'bench', summary: 'all measured' });
  });

  it('writes numbers as numbers, and what belongs to a note beside it', () => {
    const stream = createStream();
    const progress = createProgress('json', stream);
    progress.start(2, 'audit');
    progress.update(1, { arm: 'attack', step: 2, steps: 40, leftMs: 1234 });
    progress.note('hello', { units: 7, drafters: ['a'] });
    const [, update, note] = stream.written.trimEnd().split('\n');
    expect(JSON.parse(update!)).toEqual({
      event: 'progress-update',
      ...{ label: 'audit', done: 1, total: 2 },
      ...{ arm: 'attack', step: 2, steps: 40, leftMs: 1234 },
    });
    expect(JSON.parse(note!)).toEqual({ event: 'note', message: 'hello', units: 7, drafters: ['a'] });
  });

  it.each(['bar', 'plain', 'json', 'none'] as const)('takes an update before the start as %s', (mode) => {
    const stream = createStream();
    const progress = createProgress(mode, stream);
    progress.update(3, { loss: 1 });
    progress.finish();
    expect(stream.written.includes('"done":3,"total":0')).toBe(mode === 'json');
  });

  it('lets no name steer the terminal or break a line', () => {
    for (const mode of ['bar', 'plain'] as const) {
      const stream = createStream(true);
      const progress = createProgress(mode, stream);
      progress.start(1, 'audit');
      progress.update(1, { prompt: 'a\u001b[2J\nb\u202e' });
      progress.note('c\u001b[3J\nd');
      progress.finish('e\u001b[4Jf');
      expect(stream.written).toContain('prompt a\ufffd[2J b\ufffd');
      expect(stream.written).toContain('c\ufffd[3J d\n');
      expect(stream.written).toContain('e\ufffd[4Jf\n');
      expect(stream.written).not.toMatch(/\u001b\[[234]J/);
    }
  });

  it('keeps notes above the bar', () => {
    const stream = createStream(true);
    const progress = createProgress('bar', stream);
    progress.start(2, 'bench');
    progress.note('the drafter failed');
    progress.finish();
    expect(stream.written).toContain('\u001b[1G\u001b[2Kthe drafter failed\n');
  });

  it('can be silent, and then says nothing at all', () => {
    expect(writeRun('none', true)).toBe('');
  });

  it('does not fail on a run of nothing', () => {
    const stream = createStream();
    const progress = createProgress('plain', stream);
    progress.start(0, 'bench');
    progress.update(0);
    expect(stream.written).toBe('bench: 0 to do\nbench: 0/0 (100 %)\n');
  });
});

describe('lines in a log', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('come every half minute of silence, with what is left by then', () => {
    const stream = createStream();
    const progress = createProgress('plain', stream, () => Date.now());
    progress.start(100, 'audit');
    progress.update(0, { leftMs: 300_000 });
    progress.update(1, { leftMs: 300_000 });
    vi.advanceTimersByTime(29_999);
    expect(stream.written).toBe('audit: 100 to do\n');
    vi.advanceTimersByTime(1);
    expect(stream.written).toBe('audit: 100 to do\naudit: 1/100 (1 %)  left 5 min\n');
    vi.advanceTimersByTime(30_000);
    expect(stream.written.trimEnd().split('\n').at(-1)).toBe('audit: 1/100 (1 %)  left 4 min');
  });

  it('estimate the time left from the first update on', () => {
    let time = 0;
    const stream = createStream();
    const progress = createProgress('plain', stream, () => time);
    progress.start(100, 'train');
    progress.update(50);
    time = 10_000;
    progress.update(60);
    expect(stream.written).toMatch(/train: 60\/100 \(60 %\) {2}left 40 s\n$/);
  });

  it('do not come sooner for a milestone in between, nor after the end', () => {
    const stream = createStream();
    const progress = createProgress('plain', stream);
    progress.start(10, 'audit');
    vi.advanceTimersByTime(20_000);
    progress.update(1);
    vi.advanceTimersByTime(20_000);
    expect(stream.written).toBe('audit: 10 to do\naudit: 1/10 (10 %)\n');
    vi.advanceTimersByTime(10_000);
    expect(stream.written.trimEnd().split('\n')).toHaveLength(3);
    progress.finish();
    expect(vi.getTimerCount()).toBe(0);
  });
});
