/**
 * A process that does parts of a hardening study, beside others that share the device: some searches of a round, the
 * training of a round, an audit of some prompts. What comes of a part does not depend on which process does it.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { PromptResult } from '../../src/audit/result.js';
import { writeAtomically } from '../../src/runs/run-writes.js';
import { bundledTarget } from '../../src/decode/bundled-models.js';
import type { Target } from '../../src/decode/target.js';
import { openTarget } from '../../src/decode/target.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/load-drafter.js';
import { openRuntime } from '../../src/runtime/create-runtime.js';
import type { Prompt } from '../../src/text/prompts/prompt-set.js';
import { listPrompts, takeRound } from '../../src/train/harden/attacked-prompts.js';
import type { Conversation } from '../../src/train/data/conversations.js';
import { readConversations } from '../../src/train/data/conversations.js';
import type { HardenRequest } from '../../src/train/harden/harden-request.js';
import { createHardenRequest } from '../../src/train/harden/harden-request.js';
import { auditSettings } from '../../src/train/harden/hardening-audits.js';
import type { RoundRecord } from '../../src/train/harden/hardening-result.js';
import { hardenRounds } from '../../src/train/harden/hardening-rounds.js';
import { SuffixHunt } from '../../src/train/harden/suffix-hunt.js';
import type { SuffixedPrompt } from '../../src/train/harden/suffixed-texts.js';
import { huntPrompt } from '../../src/train/harden/suffixed-texts.js';
import type { TrainingTexts } from '../../src/train/data/training-texts.js';
import { prepareTexts } from '../../src/train/data/training-texts.js';
import { writeBlend } from './blend.js';
import type { Candidate, Chain, CleanLength, Job, JobResult, Study, Variant } from './jobs.js';
import { blendFolder, chainFolder, roundFolder } from './jobs.js';
import { attackPrompts, measureClean } from './prompt-attack.js';

export class JobWorker {
  private readonly requests = new Map<string, HardenRequest>();
  private opened: Promise<Opened> | undefined;

  constructor(private readonly study: Study) {}

  async run(job: Job): Promise<JobResult> {
    switch (job.kind) {
      case 'hunt':
        return { kind: 'hunt', found: await this.hunt(job.chain, job.round, job.places) };
      case 'train':
        return { kind: 'train', record: await this.train(job.chain, job.round) };
      case 'audit':
        return { kind: 'audit', prompts: await this.audit(job) };
      case 'clean':
        return { kind: 'clean', lengths: await this.measure(job.candidate, job.prompts) };
    }
  }

  private async hunt(
    chain: Chain,
    round: number,
    places: readonly number[],
  ): Promise<readonly SuffixedPrompt[]> {
    const request = await this.request(chain);
    const { target, conversations, texts } = await this.open(request);
    const { hardening: settings, training, audit } = request;
    const all = listPrompts(conversations, texts.training, settings.seed);
    const from = round === 0 ? request.from.folder : join(roundFolder(this.study, chain, round - 1), 'last');
    const { model, tokenizer } = target;
    const hunt = new SuffixHunt(
      target,
      await loadDrafter(from, { target: model, tokenizer }),
      training.chain,
    );
    const found: SuffixedPrompt[] = [];
    try {
      for (const place of places) {
        const work = {
          ...{ target, settings, audit: audit.settings, round, maxNewTokens: training.maxNewTokens },
          prompts: takeRound(all, round, settings.promptsPerRound),
          source: chain.role === 'hardened' ? ('searched' as const) : chain.role,
        };
        found.push(await huntPrompt(work, hunt, place));
      }
    } finally {
      await hunt.dispose();
    }
    return found;
  }

  /** Earlier rounds are finished and the suffixes of this one found: all that is left of it is to train. */
  private async train(chain: Chain, round: number): Promise<RoundRecord> {
    const whole = await this.request(chain);
    const request = { ...whole, hardening: { ...whole.hardening, rounds: round + 1 } };
    const { target, conversations, texts } = await this.open(whole);
    const prompts = listPrompts(conversations, texts.training, whole.hardening.seed);
    const { rounds } = await hardenRounds({
      ...{ role: chain.role, request, target, texts, prompts, cache: {}, events: {} },
      folder: chainFolder(this.study, chain),
    });
    return rounds[round]!;
  }

  private async audit({
    candidate,
    audit,
    prompts,
    place,
  }: Job & { kind: 'audit' }): Promise<PromptResult[]> {
    if (existsSync(place)) return JSON.parse(readFileSync(place, 'utf8')) as PromptResult[];
    const { request, target, loaded } = await this.load(candidate);
    const settings = auditSettings(request, audit);
    // Under one name, so that searches against a drafter before and after begin at the same suffixes.
    const work = { settings, seed: request.audit.seed, name: candidate.drafter };
    const results = await attackPrompts(target, loaded, prompts, work);
    mkdirSync(dirname(place), { recursive: true });
    writeAtomically(place, JSON.stringify(results), 'harden');
    return results;
  }

  private async measure(candidate: Candidate, prompts: readonly Prompt[]): Promise<CleanLength[]> {
    const { request, target, loaded } = await this.load(candidate);
    return measureClean(target, loaded, prompts, { ...request.audit.settings, seed: request.audit.seed });
  }

  private async load({ drafter, chain, rounds, blend }: Candidate) {
    const variant: Variant = { name: 'before', hardening: {}, training: {} };
    const request = await this.request(chain ?? { drafter, variant, role: 'hardened' });
    const { target } = await this.open(request);
    const load = (folder: string): Promise<Drafter> =>
      loadDrafter(folder, { target: target.model, tokenizer: target.tokenizer });
    const { folder: from } = request.from;
    if (chain === null) return { request, target, loaded: await load(from) };
    const made = blendFolder(this.study, { drafter, chain, rounds, blend: 1 });
    if (blend === 1) return { request, target, loaded: await load(made) };
    const to = blendFolder(this.study, { drafter, chain, rounds, blend });
    if (!existsSync(to)) await writeBlend({ from, made, to, share: blend }, load);
    return { request, target, loaded: await load(to) };
  }

  private async request(chain: Chain): Promise<HardenRequest> {
    const key = JSON.stringify(chain);
    const known = this.requests.get(key);
    if (known !== undefined) return known;
    const { device, threads, data, preset, audit } = this.study;
    const { drafter, variant } = chain;
    const request = await createHardenRequest({
      ...{ drafter, data, preset, device, threads },
      ...(device === 'cpu' ? {} : { dtype: 'float32' as const }),
      ...{ hardening: variant.hardening, training: variant.training, audit },
      // Each audit has prompts of its own.
      prompts: [{ id: 'none', text: 'None of the data.', turns: ['None of the data.'] }],
    });
    this.requests.set(key, request);
    return request;
  }

  /** Once: what is trained on is the same for all variants. */
  private open({ device, training }: HardenRequest): Promise<Opened> {
    const { study } = this;
    this.opened ??= (async (): Promise<Opened> => {
      const runtime = await openRuntime(device, study.threads);
      const target = await openTarget(bundledTarget, { runtime });
      const conversations = await readConversations(study.data);
      const folder = join(study.folder, 'texts', String(process.pid));
      mkdirSync(folder, { recursive: true });
      if (study.answers !== undefined) copyFileSync(study.answers, join(folder, 'answers.jsonl'));
      const texts = await prepareTexts(target, conversations, training, { folder });
      return { target, conversations, texts: texts! };
    })();
    return this.opened;
  }
}

interface Opened {
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  readonly texts: TrainingTexts;
}

/** A process of its own: jobs come in, results go out. */
if (process.argv[2] === 'worker') {
  const worker = new JobWorker(JSON.parse(process.argv[3]!) as Study);
  process.on('message', (job: Job) => {
    worker.run(job).then(
      (result) => process.send!({ result }),
      (cause: unknown) =>
        process.send!({ failure: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause) }),
    );
  });
}
