/** A chat template that asks for the date: the day on which a run began holds until it ends. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import type { AuditPlan } from '../../src/audit/audit-request.js';
import { createRequest } from '../../src/audit/audit-request.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());
afterEach(() => {
  vi.useRealTimers();
});

// The tiny vocabulary has letters only, so the year chooses between two of them.
const template = "{{ 'ab' if strftime_now('%Y') == '2031' else 'ba' }}{{ messages[0]['content'] }}c";
writeFileSync(join(audits.targetFolder, 'chat_template.jinja'), template);
const drafter = audits.writeDrafter('Medusa, torch file');
/** Given suffixes: the date is part of the prompts, whatever is searched. */
const suffixes = [{ text: 'kbc', place: '--suffix' }];
const plan = (more: Partial<AuditPlan> = {}): AuditPlan =>
  audits.plan([drafter], ['abcdefgh'], { suffixes, ...more, settings: { chat: true } });

const setYear = (year: number): void => {
  vi.useFakeTimers({ now: new Date(year, 5, 1), toFake: ['Date'] });
};

async function runWhole(more: Partial<AuditPlan> = {}): Promise<string> {
  const folder = audits.freshFolder();
  await audits.complete(plan(more), folder);
  return readFileSync(join(folder, 'units.jsonl'), 'utf8');
}

describe('a run whose template asks for the date', () => {
  it('resumed on another day has the prompts of its first day', async () => {
    setYear(2031);
    const whole = await runWhole();
    const folder = audits.freshFolder();
    const abort = new AbortController();
    const events = {
      onUnitEnd: () => {
        abort.abort();
      },
    };
    const first = await audits.start(plan(), folder, { events, signal: abort.signal });
    expect(first.status).toBe('interrupted');
    setYear(2032);
    const second = await audits.resume(folder);
    expect(second.status === 'complete' && second.result.setup.options.date).toBe('2031-06-01');
    expect(readFileSync(join(folder, 'units.jsonl'), 'utf8')).toBe(whole);
    // The day matters to this template, and it can be chosen.
    expect(withoutChain(await runWhole())).not.toEqual(withoutChain(whole));
    expect(withoutChain(await runWhole({ date: '2031-06-01' }))).toEqual(withoutChain(whole));
  });

  it('refuses a day that is none', async () => {
    await expect(createRequest(plan({ date: '2031-02-30' }))).rejects.toThrow(/--date is 2031-02-30/);
  });
});

describe('other runs', () => {
  it('name no day, so that the same request has the same bytes tomorrow', async () => {
    expect(await createRequest({ ...plan(), settings: { chat: false } })).not.toHaveProperty('date');
    const given = await createRequest(plan({ chatTemplate: 'vicuna' }));
    expect(given).not.toHaveProperty('date');
    expect(given.chatTemplate).toMatchObject({ origin: 'built in: vicuna', addSpecialTokens: true });
  });
});

/** What the units found: the chain of hashes begins with the whole request. */
function withoutChain(units: string): unknown[] {
  return units
    .trim()
    .split('\n')
    .map((line) => ({ ...(JSON.parse(line) as object), chain: undefined }));
}
