import { MistletoeError } from '../../core/errors.js';
import { bundledPrompts } from '../../decode/bundled-models.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { settleDevice } from '../../decode/gpu-fit.js';
import { encodePrompt, openTarget } from '../../decode/target.js';
import { loadDrafter } from '../../draft/systems.js';
import { rehearse } from '../../guard/rehearse/rehearsal.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice } from '../../runtime/device-choice.js';
import { loadPrompts } from '../../text/prompts/prompt-set.js';
import type { DownloadFlags, DrafterFlags, MachineFlags, TemplateFlags } from '../common-flags.js';
import { cacheOf, tapsOf, templateOf } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { createModelFinder } from '../model-source.js';
import { createNotice } from '../terminal.js';
import { formatRehearsal } from './rehearse-text.js';
import type { Terminal } from '../terminal.js';

/** As commander passes them. */
export interface RehearseFlags extends MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly drafter: string;
  readonly draftLength: number;
  readonly stageRequests: number;
  readonly prompts?: string;
  readonly requests: number;
  readonly maxNewTokens: number;
  readonly falseAlerts?: number;
}

export async function runRehearse(flags: RehearseFlags, terminal: Terminal): Promise<number> {
  const texts = (await loadPrompts(readable(flags.prompts))).map(({ text }) => text);
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, terminal.closed]);
  const onNotice = createNotice(terminal);
  const findModel = createModelFinder(flags, terminal);
  const folder = await findModel(flags.target);
  const source = await findModel(findDrafter(flags.drafter));
  const device = await settleDevice(await chooseDevice(flags), [folder, source], onNotice);
  const runtime = await openRuntime(device, flags.threads);
  try {
    const loading = { onNotice, ...cacheOf(flags), ...tapsOf(flags) };
    const target = await openTarget(folder, { runtime, ...loading, ...templateOf(flags) });
    const { model, tokenizer, stopIds } = target;
    const drafter = await loadDrafter(source, { target: model, tokenizer, ...loading });
    const prompts: number[][] = [];
    for (const text of texts) prompts.push(await encodePrompt(target, text));
    const { draftLength, requests: usualRequests, stageRequests, maxNewTokens: newTokens } = flags;
    terminal.stderr.write(
      `Rehearses with ${drafter.name}, chain:${draftLength}: ${usualRequests} requests as usual, then ${stageRequests} of each stage.\n`,
    );
    const stopListening = terminal.onInterrupt(() => {
      abort.abort();
    });
    try {
      const rehearsal = await rehearse({
        ...{ model, drafter, prompts, stopIds, draftLength, newTokens, usualRequests, stageRequests, signal },
        ...(flags.falseAlerts === undefined ? {} : { falseAlerts: flags.falseAlerts }),
        onRequest: (done, total) => {
          if (done % reportEvery === 0) terminal.stderr.write(`${done} of ${total} requests\n`);
        },
      });
      if (rehearsal === undefined) return exitCodes.interrupted;
      terminal.stdout.write(formatRehearsal(rehearsal));
      const isNoticed = rehearsal.stages.some(({ verdicts }) =>
        verdicts.some(({ name }) => name === 'collapsed' || name === 'low'),
      );
      return isNoticed && rehearsal.areAnswersKept ? exitCodes.success : exitCodes.incomplete;
    } finally {
      stopListening();
    }
  } finally {
    await runtime.dispose();
  }
}

const reportEvery = 20;

function readable(prompts: string = bundledPrompts): string {
  if (/\.(jsonl|txt)$/.test(prompts)) return prompts;
  throw new MistletoeError('usage', `--prompts is ${prompts}; a .jsonl or .txt file was expected.`, {
    hint: 'Rename the file by its kind.',
  });
}
