import { existsSync } from 'node:fs';
import { parseHubId } from '../checkpoint/hub/hub-settings.js';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafters, readVersion } from '../core/package-files.js';
import { findDrafter } from '../decode/find-drafter.js';
import { readPage } from '../dashboard/page.js';
import { nameDrafter } from '../draft/systems.js';
import { type NamedKey, parseKeys, readKeys } from '../serve/access.js';
import { watchRecords } from '../serve/serve-metrics.js';
import { type RunningServer, startServer } from '../serve/serve.js';
import { maxNewTokensLimit } from '../core/limits.js';
import { byteSize, decimal, integer, oneOf, text } from '../core/settings.js';
import { type Invocation, defineCommand } from './command.js';
import * as common from './common-flags.js';
import { exitCodes } from './failure.js';
import { createModelFinder, nameUniquely } from './model-source.js';
import { type FlagsOf, flag, group, list, toggle } from './flags.js';
import { waitForEnd } from './long-runs.js';
import { type Terminal, createNotice } from './terminal.js';

const flags = {
  ...group('What to run', {
    ...common.targetFlag,
    drafter: list(
      `folder or hub name of a drafter; ${bundledDrafters.join(', ')}; ngram[:MIN,MAX]; or several joined by +, as in ngram+eagle3; requests may name another than the first`,
      text,
      'model',
      { short: 'd', shownDefault: 'none, plain decoding' },
    ),
    ...common.draftFlag,
    ...common.tapsFlag,
    servedModelName: flag('model name in requests', text, 'name', { shownDefault: 'the name of its folder' }),
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('Network and access', {
    host: flag('address to listen on; addresses of other machines need keys', text, 'address', {
      default: '127.0.0.1',
    }),
    port: flag('0 takes any free port', integer(0, 65_535), 'number', { default: 8000 }),
    keys: flag('file of bearer keys, one a line, optionally after a name', text, 'file', {
      shownDefault: '$MISTLETOE_KEYS or none',
    }),
    allowAnonymous: toggle('listen for other machines without keys', { rare: true }),
  }),
  ...group('Limits', {
    concurrency: flag('answers decoded at the same time', integer(1, 256), 'count', { default: 8 }),
    maxMemory: flag('KV cache of running answers, as 20GB; others wait', byteSize(1), 'size', {
      shownDefault: 'no limit',
    }),
    maxBody: flag('max size of a request', byteSize(1), 'size', {
      default: 4 * 2 ** 20,
      shownDefault: '4MiB',
      rare: true,
    }),
    maxPromptTokens: flag('max tokens of a prompt', integer(1), 'count', {
      rare: true,
      shownDefault: 'the model’s context',
    }),
    maxNewTokens: flag('max tokens of an answer', integer(1, maxNewTokensLimit), 'count', {
      shownDefault: 'the model’s context',
    }),
    maxChoices: flag('max answers per request', integer(1, 1024), 'count', { default: 16, rare: true }),
    maxQueue: flag('max waiting answers; further requests are rejected', integer(0), 'count', {
      default: 64,
    }),
    maxSeconds: flag(
      'max duration of a request; its answer is cut',
      decimal({ above: 0, max: 1e6 }),
      'number',
      { default: 600, rare: true },
    ),
    grace: flag('time to finish answers after Ctrl-C', decimal({ min: 0, max: 1e6 }), 'seconds', {
      default: 10,
      rare: true,
    }),
  }),
  ...group('Telemetry and machine', {
    perRequestSpecDecodeMetrics: flag(
      'draft metrics in responses; requests may override it',
      oneOf(['none', 'summary', 'detailed']),
      'level',
      { default: 'none' },
    ),
    logPrompts: toggle('log prompts and answers', { rare: true }),
    ...common.machineFlags,
  }),
};
type ServeFlags = FlagsOf<typeof flags>;

export const serve = defineCommand({
  name: 'serve',
  description:
    'Serves a model with an OpenAI-compatible API (/v1/chat/completions, /v1/completions), with speculative decoding if a drafter is given, and many answers at once. Draft metrics are available per request and in /metrics, in vLLM’s format.',
  flags,
  examples: [
    ['mistletoe serve', 'the bundled model, plain decoding'],
    ['mistletoe serve --drafter eagle3 --draft chain:4', 'with speculative decoding'],
    [
      'mistletoe serve -t ./my-model -d ./my-eagle3 -d ngram',
      'requests choose: "mistletoe": {"drafter": "ngram"}',
    ],
    ['mistletoe serve --host 0.0.0.0 --keys keys.txt', 'for other machines, with keys'],
  ],
  notes:
    'The log goes to stdout, one line of JSON per request, without prompts; everything else to stderr. Ctrl-C rejects new requests, lets answers finish, and cuts the others after the grace period. Exit code 0 then.',
  run: runServe,
});

/** A question that the bundled model answers well. */
const exampleQuestion = 'Write a Python function that adds two numbers.';

async function runServe(flags: ServeFlags, { terminal }: Invocation): Promise<number> {
  if (flags.draft !== undefined && flags.drafter.length === 0) {
    throw new MistletoeError('usage', '--draft was given without a drafter.', {
      hint: 'Add --drafter with a folder or a bundled name such as eagle3, or leave it out for plain decoding.',
    });
  }
  const keys = await keysOf(flags, terminal);
  const findModel = createModelFinder(flags, terminal);
  // By the names that requests use.
  const drafters: Record<string, string> = {};
  for (const [name, source] of nameUniquely('--drafter', flags.drafter.map(findDrafter), nameDrafter))
    drafters[name] = await findModel(source);
  const target = await findModel(flags.target);
  const hubName = existsSync(flags.target) ? undefined : parseHubId(flags.target)?.repository;
  const notice = createNotice(terminal);
  const server = await startServer({
    host: flags.host,
    port: flags.port,
    draft: flags.draft,
    concurrency: flags.concurrency,
    device: flags.device,
    dtype: flags.dtype,
    threads: flags.threads,
    taps: flags.taps,
    chatTemplate: flags.chatTemplate,
    date: flags.date,
    ...common.cacheOf(flags),
    ...watchRecords(readVersion(), ({ text }) => {
      notice(text);
    }),
    target,
    drafters,
    keys,
    modelName: flags.servedModelName ?? hubName,
    page: readPage,
    allowAnonymous: flags.allowAnonymous === true,
    metricsLevel: flags.perRequestSpecDecodeMetrics,
    logPrompts: flags.logPrompts === true,
    limits: {
      bodyBytes: flags.maxBody,
      promptTokens: flags.maxPromptTokens,
      newTokens: flags.maxNewTokens,
      choices: flags.maxChoices,
      queue: flags.maxQueue,
      seconds: flags.maxSeconds,
    },
    memoryBytes: flags.maxMemory,
    onNotice: notice,
    onLog: (line) => {
      terminal.stdout.writeData(line);
    },
  });
  terminal.stderr.write(describe(server, Object.keys(drafters), flags, keys.length > 0));
  const fault = await waitForEnd(terminal, server);
  if (fault === undefined)
    terminal.stderr.write('Shutting down: new requests are rejected, running answers finish.\n');
  await server.close({ graceMs: flags.grace * 1000 });
  if (fault !== undefined) throw fault;
  return exitCodes.success;
}

async function keysOf({ keys }: ServeFlags, { environment }: Terminal): Promise<readonly NamedKey[]> {
  if (keys !== undefined) return readKeys(keys);
  const { MISTLETOE_KEYS: listed = '' } = environment;
  return listed.trim() === '' ? [] : parseKeys(listed.replaceAll(',', '\n'), 'MISTLETOE_KEYS');
}

function describe(
  { url, operatorUrl = url, modelName, device }: RunningServer,
  drafters: readonly string[],
  { draft }: ServeFlags,
  isKeyed: boolean,
): string {
  const drafting = drafters.length === 0 ? 'by plain decoding' : `drafted by ${drafters.join(', ')}`;
  const policy = draft === undefined ? '' : ` (${draft})`;
  const key = isKeyed ? " -H 'Authorization: Bearer KEY'" : '';
  const body = JSON.stringify({
    model: modelName,
    messages: [{ role: 'user', content: exampleQuestion }],
    temperature: 0,
  });
  const page = `Page: ${operatorUrl}/mistletoe\n`;
  return (
    `Serves ${modelName}, ${drafting}${policy}, on ${device}, at ${url}\n` +
    `Try: curl ${url}/v1/chat/completions${key} -H 'Content-Type: application/json' -d '${body}'\n` +
    page
  );
}
