/** What a study asks its processes for: rounds of a chain, audits of some prompts, lengths on many. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DrafterResult } from '../../src/audit/result.js';
import { summariseDrafter } from '../../src/audit/summary.js';
import type { Prompt } from '../../src/text/prompts/prompt-set.js';
import type { RoundRecord } from '../../src/train/harden/hardening-result.js';
import type { HardeningAudit } from '../../src/train/harden/hardening-settings.js';
import { hardeningDefaults } from '../../src/train/harden/hardening-settings.js';
import { formatFound, readFound } from '../../src/train/harden/suffixed-texts.js';
import type { JobPool } from './job-pool.js';
import type { Candidate, Chain, CleanLength, Study } from './jobs.js';
import { roundFolder } from './jobs.js';

export class StudyParts {
  constructor(
    private readonly study: Study,
    private readonly pool: JobPool,
    private readonly tell: (line: string) => void,
  ) {}

  /** As many rounds as there was time for. */
  async harden(chain: Chain, before = Infinity): Promise<readonly RoundRecord[]> {
    const settings = { ...hardeningDefaults, ...chain.variant.hardening };
    const records: RoundRecord[] = [];
    for (let round = 0; round < settings.rounds; round++) {
      const place = roundFolder(this.study, chain, round);
      const file = join(place, 'suffixes.jsonl');
      mkdirSync(place, { recursive: true });
      if (readFound(file).length < settings.promptsPerRound) {
        const parts = shareOut(
          settings.promptsPerRound,
          settings.objectives.length * settings.suffixLengths.length,
        );
        const hunts = await Promise.all(
          parts.map(async (places) => ({
            places,
            done: await this.pool.do({ kind: 'hunt', chain, round, places }, before),
          })),
        );
        const lines: string[] = [];
        for (const { places, done } of hunts) {
          if (done?.kind !== 'hunt') return records;
          places.forEach((at, index) => (lines[at] = formatFound(done.found[index]!)));
        }
        writeFileSync(file, lines.join(''));
      }
      const trained = await this.pool.do({ kind: 'train', chain, round });
      if (trained?.kind !== 'train') return records;
      records.push(trained.record);
      const { attackedLength, found, suffixes, cleanBefore, cleanAfter } = trained.record;
      const shown = [attackedLength, cleanBefore, cleanAfter].map((length) => length?.toFixed(3) ?? '-');
      this.tell(
        `${chain.drafter} ${chain.variant.name} ${chain.role} round ${round + 1}: ${found} found, ${suffixes} suffixes, attacked ${shown[0]!}, clean ${shown[1]!} to ${shown[2]!}`,
      );
    }
    return records;
  }

  /** Undefined where there was no time for any prompt. */
  async audit(
    candidate: Candidate,
    audit: HardeningAudit,
    prompts: readonly Prompt[],
  ): Promise<DrafterResult | undefined> {
    const { drafter, chain, rounds, blend } = candidate;
    if (chain !== null && rounds === 0) return undefined;
    const atOnce = audit === 'stronger' ? 1 : 3;
    const who =
      chain === null
        ? `${drafter}-before`
        : `${drafter}-${chain.variant.name}-${chain.role}-${rounds}-${blend}`;
    const starts = Array.from({ length: Math.ceil(prompts.length / atOnce) }, (_, part) => part * atOnce);
    const results = await Promise.all(
      starts.map(async (start) => {
        const some = prompts.slice(start, start + atOnce);
        const place = join(this.study.folder, 'audits', `${who}-${audit}-${some[0]!.id}.json`);
        return this.pool.do({ kind: 'audit', candidate, audit, prompts: some, place });
      }),
    );
    const audited = results.flatMap((done) => (done?.kind === 'audit' ? done.prompts : []));
    if (audited.length === 0) return undefined;
    return { drafter: who, prompts: audited, summary: summariseDrafter(audited, 0) };
  }

  /** Drafts along the clean answers; none where there was no round. */
  async measure(candidate: Candidate, all: readonly Prompt[]): Promise<readonly CleanLength[]> {
    if (candidate.chain !== null && candidate.rounds === 0) return [];
    const parts = shareOut(all.length, 3).map((places) => places.map((place) => all[place]!));
    const done = await Promise.all(
      parts.map((prompts) => this.pool.do({ kind: 'clean', candidate, prompts })),
    );
    return done.flatMap((result) => (result?.kind === 'clean' ? result.lengths : []));
  }
}

/** Prompts that have objective and length in common are searched by one process: it compiles fewer programs. */
function shareOut(prompts: number, kinds: number): readonly (readonly number[])[] {
  const most = 8;
  const byKind = Array.from({ length: kinds }, (_, kind) =>
    Array.from({ length: prompts }, (_, place) => place).filter((place) => place % kinds === kind),
  );
  return byKind.flatMap((places) => {
    const parts = Math.ceil(places.length / most);
    return Array.from({ length: parts }, (_, part) => places.filter((_, index) => index % parts === part));
  });
}
