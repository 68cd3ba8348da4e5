/**
 * Every exported function with nothing but its required arguments, on tiny models. The functions are listed from the
 * package itself: an export without a case here fails. Arguments that decide how much work is done (a request, settings)
 * are small.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { lazily } from '../../src/core/promises.js';
import type * as Library from '../../src/index.js';
import { readContents, startHub } from '../support/hub-server.js';
import type { FakeHub } from '../support/hub-server.js';
import type { EngineServer } from '../support/engine-server.js';
import { startEngine } from '../support/engine-server.js';
import { briefSettings, TinyAudits, tinySettings } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

// Transpiled, because some functions start threads from files beside them.
const { folder: build } = transpileForTests('library-arguments');
const library = (await import(pathToFileURL(join(build, 'src/index.js')).href)) as typeof Library;
const models = new TinyAudits();
const cacheFolder = join(build, 'cache');
const environment = { ...process.env };
let hub: FakeHub;
let engine: EngineServer;
beforeAll(async () => {
  hub = await startHub();
  engine = await startEngine('vllm');
  Object.assign(process.env, {
    ...{ MISTLETOE_CACHE: cacheFolder, HF_HOME: join(build, 'hub'), HF_ENDPOINT: hub.endpoint },
  });
});
afterAll(async () => {
  for (const name of ['MISTLETOE_CACHE', 'HF_HOME', 'HF_ENDPOINT']) {
    const before = environment[name];
    if (before === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = before;
  }
  await (await openedTarget()).model.runtime.dispose();
  await models.dispose();
  await Promise.all([hub.close(), engine.close()]);
});

const targetFolder = models.targetFolder;
const drafterFolder = lazily(() => Promise.resolve(models.writeDrafter('draft model')));
const openedTarget = lazily(() => library.openTarget(targetFolder));
const model = async () => (await openedTarget()).model;
const drafter = lazily(async () => library.loadDrafter(await drafterFolder(), { target: await model() }));

const text = 'abcdefgh';
const prompts = [library.inlinePrompt(text)];
const decoding = {
  ...{ promptIds: [0, 1, 2], maxNewTokens: 4, sampling: { temperature: 0 }, seed: 0, stopIds: [] },
};
const chain = { kind: 'chain', length: 2 } as const;
const answered = lazily(async () => library.decodePlain(await model(), decoding));

const auditPlan = async () => models.plan([await drafterFolder()], [text], { settings: briefSettings });
const auditRequest = lazily(async () => library.createRequest(await auditPlan()));
const auditFolder = models.freshFolder();
const audited = lazily(async () => completed(await library.startAudit(auditFolder, await auditRequest())));
const reported = lazily(async () => {
  const { result, timings } = await audited();
  await library.writeReports(auditFolder, result, timings, library.judge(result));
  return auditFolder;
});

const data = `${models.freshFolder()}.jsonl`;
writeFileSync(data, ['abcdef', 'bcdefg', 'cdefgh', 'defghi'].map((prompt) => `${JSON.stringify({ prompt })}\n`).join('')); // prettier-ignore
const learning = { steps: 1, batchTokens: 64, maxNewTokens: 12, validation: 0.3, chain: 2, generate: true };
const trainFolder = models.freshFolder();
const trained = lazily(async () => {
  const plan = { target: targetFolder, system: 'medusa', data, settings: learning, shape: { heads: 2 } };
  return completed(await library.startTraining(trainFolder, await library.createTrainRequest(plan)));
});
const hardenFolder = models.freshFolder();
const hardened = lazily(async () => {
  const request = await library.createHardenRequest({
    ...{
      target: targetFolder,
      drafter: models.writeDrafter('Medusa, vLLM naming'),
      data,
      prompts: [library.inlinePrompt('hgfedcba')],
    },
    ...{ training: { ...learning, depth: 1 }, preset: 'quick', baselines: [] },
    hardening: {
      ...{ rounds: 1, promptsPerRound: 1, suffixesPerPrompt: 1, randomPerPrompt: 1, spread: 0 },
      ...{ searchSteps: 1, stepsPerRound: 1, suffixLengths: [4] },
    },
    audit: { ...tinySettings, ...briefSettings },
  });
  return completed(await library.startHardening(hardenFolder, request));
});

const speed = lazily(async () =>
  library.runBenchmark({
    ...{ target: await openedTarget(), systems: [], promptSets: [{ name: 'tiny', prompts }] },
    ...{ maxNewTokens: 4, sampling: { temperature: 0 }, seed: 0, warmup: 0 },
  }),
);

const downloaded = lazily(() => {
  hub.add('tiny/target', readContents(targetFolder));
  return library.downloadModel(library.parseHubId('tiny/target')!);
});

const guardRecord = JSON.stringify({
  ...{ id: '1', model: 'tiny', route: '/v1/completions', endedMs: 1, engine: 'vllm', tenant: 'anonymous' },
  ...{ status: 200, ending: 'complete', upstream: 'speculative', isStream: false, totalMs: 1 },
  ...{ promptTokens: null, completionTokens: null, firstByteMs: null, speculation: null, promptPrint: null },
} satisfies Library.GuardRecord);

/** Name of the export -> a call of it. What a call gives is awaited, and closed where it can be. */
const cases: Readonly<Record<string, () => unknown>> = {
  MistletoeError: () => new library.MistletoeError('usage', 'No.'),
  encodePrompt: async () => library.encodePrompt(await openedTarget(), text),
  generateText: async () => library.generateText(await openedTarget(), text),
  openTarget: () => openedTarget(),
  decodePlain: () => answered(),
  createPolicy: async () => library.createPolicy(chain, await drafter()),
  generateSpeculatively: async () =>
    library.generateSpeculatively(await openedTarget(), await drafter(), text),
  findDrafter: () => library.findDrafter('eagle3'),
  decodeSpeculative: async () =>
    library.decodeSpeculative(await model(), await drafter(), {
      ...decoding,
      policy: library.createPolicy(chain, await drafter()),
    }),
  loadDrafter: () => drafter(),
  parseDraftPolicy: () => library.parseDraftPolicy('chain:2'),
  Engine: () => new library.Engine().run(() => Promise.resolve(1)),
  createEngineWorker: () => library.createEngineWorker({ target: targetFolder }),
  startServer: () => onFreePort(() => library.startServer({ target: targetFolder })),
  runBenchmark: () => speed(),
  describeMachine: () => library.describeMachine(),
  formatBenchmark: async () =>
    library.formatBenchmark(await speed(), {
      ...{ target: 'tiny', machine: library.describeMachine(), threads: 1, maxNewTokens: 4 },
      ...{ sampling: { temperature: 0 }, seed: 0, warmup: 0, concurrency: 1 },
    }),
  inspectCheckpoint: () => library.inspectCheckpoint(targetFolder),
  findCachedModel: async () => {
    await downloaded();
    return library.findCachedModel(library.parseHubId('tiny/target')!);
  },
  downloadModel: () => downloaded(),
  parseHubId: () => library.parseHubId('tiny/target'),
  defaultCacheFolder: () => library.defaultCacheFolder(),
  describeCache: () => library.describeCache(cacheFolder),
  verifyCache: () => library.verifyCache(cacheFolder),
  clearCache: () => library.clearCache(join(build, 'another-cache')),
  trimCache: () => library.trimCache(join(build, 'another-cache'), 1e9),
  runAudit: async () => library.runAudit(models.freshFolder(), await auditPlan()),
  createRequest: () => library.createRequest({ prompts }),
  planAudit: async () => library.planAudit(await auditRequest()),
  resumeAudit: async () => {
    await audited();
    return library.resumeAudit(auditFolder);
  },
  startAudit: () => audited(),
  judge: async () => library.judge((await audited()).result),
  writeReports: () => reported(),
  compareRuns: async () => library.compareRuns(await reported(), await reported()),
  verifyFinishedRun: async () => library.verifyFinishedRun(await reported()),
  createTrainRequest: () => library.createTrainRequest({ system: 'eagle3', data }),
  resumeTraining: async () => {
    await trained();
    return library.resumeTraining(trainFolder);
  },
  startTraining: () => trained(),
  writeTrainingReports: async () => library.writeTrainingReports(trainFolder, (await trained()).result),
  createHardenRequest: () => library.createHardenRequest({ drafter: 'eagle3', data, prompts }),
  resumeHardening: async () => {
    await hardened();
    return library.resumeHardening(hardenFolder);
  },
  startHardening: () => hardened(),
  writeHardeningReports: async () => library.writeHardeningReports(hardenFolder, (await hardened()).result),
  examineEngine: () => library.examineEngine(engine.url),
  findSpeculation: () => library.findSpeculation({}),
  startGuard: () => library.startGuard(library.configureGuard({ upstream: engine.url, port: 0 })),
  configureGuard: () => library.configureGuard({ upstream: engine.url }),
  guardPage: () => library.guardPage(),
  watchMetrics: () => takeFirst(library.watchMetrics(`${engine.url}/nothing`)),
  describeReplay: async () => {
    const file = models.freshFolder();
    writeFileSync(file, guardRecord);
    return library.describeReplay(await library.replayFile(file));
  },
  replayFile: () => {
    const file = models.freshFolder();
    writeFileSync(file, guardRecord);
    return library.replayFile(file);
  },
  loadModel: async () => {
    const own = await library.loadModel(targetFolder);
    const { rows, argmax } = await own.forward({
      ...{ tokens: Int32Array.of(0, 1), cache: own.createCache(), want: ['argmax'] },
    });
    expect([rows, argmax]).toBeDefined();
    return own.runtime.dispose();
  },
  loadTokenizer: () => library.loadTokenizer(targetFolder),
  inlinePrompt: () => library.inlinePrompt(text),
  loadPrompts: () => library.loadPrompts(library.bundledPrompts),
  createRuntime: async () => (await library.createRuntime()).dispose(),
  createOnnxRuntime: () => library.createOnnxRuntime().dispose(),
  checkWorse: async () =>
    library.checkWorse(await library.compareRuns(await reported(), await reported()), 0.05),
};

function completed<Outcome extends { readonly status: string }>(
  outcome: Outcome,
): Extract<Outcome, { status: 'complete' }> {
  expect(outcome.status).toBe('complete');
  return outcome as Extract<Outcome, { status: 'complete' }>;
}

async function takeFirst(values: AsyncGenerator<unknown, void>): Promise<unknown> {
  const { value } = await values.next();
  expect(value).toBeDefined();
  void values.return();
  return value;
}

/** The default port may be in use on this machine. */
async function onFreePort<Result>(start: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await start();
  } catch (cause) {
    if (cause instanceof library.MistletoeError && cause.message.includes('cannot listen')) return undefined;
    throw cause;
  }
}

const exported = Object.entries(library)
  .filter(([, value]) => typeof value === 'function')
  .map(([name]) => name)
  .sort();

it('has a case for each exported function, and for nothing else', () => {
  expect(Object.keys(cases).sort()).toEqual(exported);
});

it.each(exported)('%s works with its required arguments', async (name) => {
  const given: unknown = await cases[name]!();
  if (typeof given === 'object' && given !== null && 'close' in given && typeof given.close === 'function')
    await (given.close as () => Promise<void> | void)();
});
