/** A worker of a hardening run, a process or a thread: keeps the target open, and the drafter of the round. */
import { type Target, openTarget } from '../../decode/target.js';
import { loadDrafter } from '../../draft/systems.js';
import { type ProcessHooks, type ProcessWork, serveUnits } from '../../runs/unit.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import type { Runtime } from '../../runtime/program.js';
import { type HuntSetup, SuffixHunt, attackedDrafter } from './suffix-hunt.js';
import { type HuntInput, huntPrompt } from './suffixed-texts.js';

class HuntProcess implements ProcessWork {
  private runtime: Runtime | undefined;
  private target: Target | undefined;
  private opened: { readonly drafter: string; readonly hunt: SuffixHunt } | undefined;

  constructor(
    private readonly setup: HuntSetup,
    private readonly onNotice: (message: string) => void,
  ) {}

  async prepare(input: unknown): Promise<void> {
    await this.open(input as HuntInput);
  }

  async run(input: unknown, _done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void> {
    const own = input as HuntInput;
    const { hardening, audit, training } = this.setup.request;
    const { target, hunt } = await this.open(own);
    const { source, round } = own;
    const { maxNewTokens } = training;
    const work = { target, settings: hardening, audit: audit.settings, source, round, maxNewTokens };
    const data = await huntPrompt(work, hunt, own);
    hooks.onPart({ key: own.prompt.id, data, steps: [], timing: null });
  }

  ask(): Promise<unknown> {
    return Promise.resolve(undefined);
  }

  async dispose(): Promise<void> {
    await this.runtime?.dispose();
  }

  private async open({ source, round }: HuntInput) {
    const { request, folder, device, threads, cacheFolder, verifyCache } = this.setup;
    const { targetFolder, chatTemplate, date, from, training } = request;
    const cache = {
      cacheFolder: cacheFolder ?? undefined,
      verifyCache,
      taps: from.taps,
      onNotice: this.onNotice,
    };
    if (this.target === undefined) {
      this.runtime = await openRuntime(device, threads);
      this.target = await openTarget(targetFolder, { runtime: this.runtime, chatTemplate, date, ...cache });
    }
    const { target } = this;
    const drafter = attackedDrafter(request, folder, source, round);
    if (this.opened?.drafter !== drafter) {
      await this.opened?.hunt.dispose();
      this.opened = undefined;
      const { model, tokenizer } = target;
      const loaded = await loadDrafter(drafter, { target: model, tokenizer, ...cache });
      this.opened = { drafter, hunt: new SuffixHunt(target, loaded, training.chain) };
    }
    return { target, hunt: this.opened.hunt };
  }
}

serveUnits((setup, onNotice) => new HuntProcess(setup as HuntSetup, onNotice));
