import { existsSync } from 'node:fs';
import { nameModel } from '../checkpoint/hub/hub-cache.js';
import { parseHubId } from '../checkpoint/hub/hub-settings.js';
import { MistletoeError } from '../core/errors.js';
import { findDrafter } from '../decode/find-drafter.js';
import { pageHandler } from '../dashboard/page-handler.js';
import { findWeightless } from '../draft/systems.js';
import type { NamedKey } from '../serve/access.js';
import { parseKeys, readKeys } from '../serve/access.js';
import { watchRecords } from '../serve/record-watch.js';
import type { RunningServer, ServeOptions } from '../serve/serve.js';
import { startServer } from '../serve/serve.js';
import { cacheOf, tapsOf, templateOf } from './common-options.js';
import { exitCodes } from './failure.js';
import type { ModelFinder } from './model-source.js';
import { createModelFinder } from './model-source.js';
import { createNotice } from './notice.js';
import { readVersion } from './package-version.js';
import type { ServeFlags } from './serve-flags.js';
import type { Terminal } from './terminal.js';

export async function runServe(flags: ServeFlags, terminal: Terminal): Promise<number> {
  if (flags.draft !== undefined && flags.drafter.length === 0) {
    throw new MistletoeError('usage', '--draft was given without a drafter.', {
      hint: 'Add --drafter with a folder or a bundled name such as eagle3, or leave it out for plain decoding.',
    });
  }
  const keys = await keysOf(flags, terminal);
  const findModel = createModelFinder(flags, terminal);
  const drafters = await nameDrafters(flags.drafter, findModel);
  const target = await findModel(flags.target);
  const notice = createNotice(terminal);
  const server = await startServer({
    ...{ target, drafters, keys, ...nameOf(flags) },
    ...watchRecords(readVersion(), ({ text }) => {
      notice(text);
    }),
    page: pageHandler,
    ...optionsOf(flags),
    ...cacheOf(flags),
    ...tapsOf(flags),
    ...templateOf(flags),
    onNotice: notice,
    onLog: (line) => {
      terminal.stdout.writeData(line);
    },
  });
  terminal.stderr.write(describe(server, Object.keys(drafters), flags, keys.length > 0));
  const fault = await waitForEnd(server, terminal);
  if (fault === undefined)
    terminal.stderr.write('Shuts down: takes nothing any more, and lets answers finish.\n');
  await server.close({ graceMs: flags.grace * 1000 });
  if (fault !== undefined) throw fault;
  return exitCodes.success;
}

async function keysOf({ keys }: ServeFlags, { environment }: Terminal): Promise<readonly NamedKey[]> {
  if (keys !== undefined) return readKeys(keys);
  const { MISTLETOE_KEYS: listed = '' } = environment;
  return listed.trim() === '' ? [] : parseKeys(listed.replaceAll(',', '\n'), 'MISTLETOE_KEYS');
}

/** By the names that requests use: that of the folder, or what was given where two have the same. */
async function nameDrafters(
  given: readonly string[],
  findModel: ModelFinder,
): Promise<Readonly<Record<string, string>>> {
  const named = new Map<string, string>();
  for (const drafter of given) {
    const source = await findModel(findDrafter(drafter));
    const short = findWeightless(source)?.name ?? nameModel(source);
    const name = named.has(short) || short === 'none' ? drafter : short;
    if (named.has(name)) {
      throw new MistletoeError('usage', `--drafter ${drafter} was given twice.`, {
        hint: 'Each may be given once; requests choose among policies by "draft".',
      });
    }
    named.set(name, source);
  }
  return Object.fromEntries(named);
}

/** A model of the hub is called as there. */
function nameOf({ servedModelName, target }: ServeFlags): Pick<ServeOptions, 'modelName'> {
  const modelName = servedModelName ?? (existsSync(target) ? undefined : parseHubId(target)?.repository);
  return modelName === undefined ? {} : { modelName };
}

function optionsOf(flags: ServeFlags): Omit<ServeOptions, 'target'> {
  const { host, port, draft, concurrency, maxMemory, device, dtype, threads } = flags;
  return {
    ...{ host, port, concurrency },
    allowAnonymous: flags.allowAnonymous === true,
    metricsLevel: flags.perRequestSpecDecodeMetrics,
    logPrompts: flags.logPrompts === true,
    guarded: flags.guarded === true,
    ...guardingOf(flags),
    limits: {
      bodyBytes: flags.maxBody,
      promptTokens: flags.maxPromptTokens,
      newTokens: flags.maxNewTokens,
      choices: flags.maxChoices,
      queue: flags.maxQueue,
      seconds: flags.maxSeconds,
    },
    ...(draft === undefined ? {} : { draft }),
    ...(maxMemory === undefined ? {} : { memoryBytes: maxMemory }),
    ...(device === undefined ? {} : { device }),
    ...(dtype === undefined ? {} : { dtype }),
    ...(threads === undefined ? {} : { threads }),
  };
}

/** Requests may ask to be guarded where the server does not do so by itself. */
function guardingOf({ slowdown, floor, ladder }: ServeFlags): Pick<ServeOptions, 'guarding'> {
  if (slowdown === undefined && floor === undefined && ladder === undefined) return {};
  return {
    guarding: {
      ...(slowdown === undefined ? {} : { slowdown }),
      ...(floor === undefined ? {} : { floor }),
      ...(ladder === undefined ? {} : { ladder: [...ladder] }),
    },
  };
}

function describe(
  { url, modelName, device }: RunningServer,
  drafters: readonly string[],
  { draft, guarded }: ServeFlags,
  isKeyed: boolean,
): string {
  const drafting = drafters.length === 0 ? 'by plain decoding' : `drafted by ${drafters.join(', ')}`;
  const details = [...(draft === undefined ? [] : [draft]), ...(guarded === true ? ['guarded'] : [])];
  const policy = details.length === 0 ? '' : ` (${details.join(', ')})`;
  const key = isKeyed ? " -H 'Authorization: Bearer KEY'" : '';
  const body = JSON.stringify({
    model: modelName,
    messages: [{ role: 'user', content: 'Why is the sky blue?' }],
  });
  const page = `Page: ${url}/mistletoe\n`;
  return (
    `Serves ${modelName}, ${drafting}${policy}, on ${device}, at ${url}\n` +
    `Try: curl ${url}/v1/chat/completions${key} -H 'Content-Type: application/json' -d '${body}'\n` +
    page
  );
}

/** Until somebody ends it, or the engine fails. */
function waitForEnd(server: RunningServer, terminal: Terminal): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const stopListening = terminal.onInterrupt(() => {
      resolve(undefined);
    });
    const end = (fault?: Error): void => {
      stopListening();
      resolve(fault);
    };
    terminal.closed.addEventListener('abort', () => {
      end();
    });
    void server.ended.then(end);
  });
}
