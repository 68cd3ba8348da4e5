/** `mistletoe audit` of a tiny pair, for the tests of both tiers. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { StopSignal } from '../../src/cli/terminal.js';
import type { CommandRunner } from '../support/run-command.js';
import { createRunner } from '../support/run-command.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

export interface ResumedAudit {
  readonly folder: string;
  /** Progress of the resumed run. */
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

export class AuditCommands {
  private readonly audits = new TinyAudits(shallow);
  readonly audit: CommandRunner = createRunner('audit', this.audits.cacheFolder);
  /** Options of an audit that takes about a second. */
  readonly common: readonly string[];

  constructor() {
    const { targetFolder, cacheFolder } = this.audits;
    const drafter = this.audits.writeDrafter('Medusa, torch file');
    mkdirSync(cacheFolder, { recursive: true });
    const prompts = join(cacheFolder, 'prompts.txt');
    writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
    this.common = [
      ...['--target', targetFolder, '--drafter', drafter, '--prompts', prompts],
      ...['--draft', 'chain:3', '--threads', '1', '--preset', 'quick', '--raw', '--keep', 'distribution'],
      ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
      ...['--shortest-answer', '8', '--steps', '3', '--candidates', '8', '--starts', '2'],
    ];
  }

  freshFolder(): string {
    return this.audits.freshFolder();
  }

  async interruptAndResume(signal: StopSignal, code: number, again: string): Promise<ResumedAudit> {
    const folder = this.freshFolder();
    const gate = ['--fail-if-drop', '0.9'];
    const words = [...this.common, '--limit', '1', '--out', folder, '--progress', 'json', ...gate];
    const interrupted = await this.audit(words, {
      onError(text, { interrupt }) {
        if (text.includes('"step":1,"steps":3')) interrupt(signal);
      },
    });
    expect([interrupted.code, interrupted.out]).toEqual([code, '']);
    expect(interrupted.err).toContain(`Finishing the current step; ${again} stops at once.`);
    expect(interrupted.err).toContain(`mistletoe audit --resume ${folder} --fail-if-drop 0.9\n`);
    expect(existsSync(join(folder, 'result.json'))).toBe(false);
    const resume = ['--resume', folder, '--format', 'markdown', '--progress', 'json'];
    const resumed = await this.audit(resume);
    expect(resumed.code).toBe(0);
    expect(resumed.out).toContain('Mistletoe audit');
    const lines = resumed.err.trim().split('\n');
    return { folder, events: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
  }

  dispose(): Promise<void> {
    return this.audits.dispose();
  }
}
