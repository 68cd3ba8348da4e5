import { describe, expect, it } from 'vitest';
import type { ProgressMode } from './progress.js';
import { createProgress } from './progress.js';

function createStream(isTerminal = false) {
  const stream = {
    isTerminal,
    written: '',
    write(text: string) {
      stream.written += text;
    },
  };
  return stream;
}

function writeRun(mode: ProgressMode, isTerminal = false): string {
  const stream = createStream(isTerminal);
  const progress = createProgress(mode, stream);
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
    const progress = createProgress('plain', stream);
    progress.start(1000, 'audit');
    for (let done = 1; done <= 1000; done++) progress.update(done);
    const lines = stream.written.trimEnd().split('\n');
    expect(lines).toHaveLength(11);
    expect(lines.at(1)).toBe('audit: 100/1000 (10 %)');
    expect(lines.at(-1)).toBe('audit: 1000/1000 (100 %)');
  });

  it('draws a bar that clears itself and leaves the summary behind', () => {
    const text = writeRun('bar', true);
    expect(text).toContain('bench');
    expect(text).toContain('4/4');
    expect(text).toContain('set code  tau 2.5');
    expect(text).toMatch(/\u2588{24}/);
    expect(text.endsWith('\u001b[1G\u001b[2Kall measured\n')).toBe(true);
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

  it('keeps notes above the bar', () => {
    const stream = createStream(true);
    const progress = createProgress('bar', stream);
    progress.start(2, 'bench');
    progress.note('the drafter failed');
    progress.finish();
    expect(stream.written).toContain('\r\u001b[Kthe drafter failed\n');
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
