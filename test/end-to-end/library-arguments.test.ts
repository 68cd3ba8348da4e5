/**
 * Every exported function with nothing but its required arguments, on tiny models. The functions are listed from the
 * package itself: an export without a case here fails. Arguments that decide how much work is done (a request, settings)
 * are small.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { lazily } from '../../src/core/lazy.js';
import type * as Library from '../../src/index.js';
import { readContents, startHub } from '../support/hub-server.js';
import type { FakeHub } from '../support/hub-server.js';
import type { EngineServer } from '../support/engine-server.js';
import { startEngine } from '../support/engine-server.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';
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
const checkpoint = lazily(() => library.openCheckpoint(targetFolder));
const tensor = async (name: string) => (await checkpoint()).tensors.get(name)!;

const text = 'abcdefgh';
const prompts = [library.inlinePrompt(text)];
const decoding = {
  ...{ promptIds: [0, 1, 2], maxNewTokens: 4, sampling: { temperature: 0 }, seed: 0, stopIds: [] },
};
const chain = { kind: 'chain', length: 2 } as const;
const answered = lazily(async () => library.decodePlain(await model(), decoding));

const auditPlan = async () =>
  models.plan([await drafterFolder()], [text], { settings: { steps: 1, randomDraws: 1 } });
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
      drafter: await drafterFolder(),
      data,
      prompts: [library.inlinePrompt('hgfedcba')],
    },
    ...{ training: { ...learning, depth: 1 }, preset: 'quick', baselines: [] },
    hardening: {
      ...{ rounds: 1, promptsPerRound: 1, suffixesPerPrompt: 1, randomPerPrompt: 1, spread: 0 },
      ...{ searchSteps: 1, stepsPerRound: 1, suffixLengths: [4] },
    },
    audit: { ...tinySettings, steps: 1, randomDraws: 1 },
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

const { input, constant } = library;
const x = input('x', [2, 4]);
const one = constant(1);
const indices = input('i', [2], 'int32');

/** Name of the export -> a call of it. What a call gives is awaited, and closed where it can be. */
const cases: Readonly<Record<string, () => unknown>> = {
  MistletoeError: () => new library.MistletoeError('usage', 'No.'),
  encodePrompt: async () => library.encodePrompt(await openedTarget(), text),
  generateText: async () => library.generateText(await openedTarget(), text),
  openTarget: () => openedTarget(),
  decodePlain: () => answered(),
  createPolicy: async () => library.createPolicy(chain, await drafter()),
  defaultDraftPolicy: async () => library.defaultDraftPolicy(await drafter()),
  generateSpeculatively: async () =>
    library.generateSpeculatively(await openedTarget(), await drafter(), text),
  isSpeculative: async () => library.isSpeculative(await answered()),
  bundledDrafterFolder: () => library.bundledDrafterFolder('eagle3'),
  findDrafter: () => library.findDrafter('eagle3'),
  always: () => library.always(chain),
  decodeSpeculative: async () =>
    library.decodeSpeculative(await model(), await drafter(), { ...decoding, policy: library.always(chain) }),
  loadDrafter: () => drafter(),
  formatDraftPolicy: () => library.formatDraftPolicy(chain),
  parseDraftPolicy: () => library.parseDraftPolicy('chain:2'),
  Engine: () => new library.Engine().run(() => Promise.resolve(1)),
  sequenceBytes: async () => library.sequenceBytes(decoding, await model()),
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
  recogniseCheckpoint: async () => library.recogniseCheckpoint(await checkpoint()),
  findProblems: () => library.findProblems(targetFolder),
  openCheckpoint: () => checkpoint(),
  readFloat32: async () => library.readFloat32(await tensor('model.norm.weight')),
  readIntegers: async () => {
    const eagle3 = await library.openCheckpoint(models.writeDrafter('EAGLE-3 with d2t'));
    return library.readIntegers(eagle3.tensors.get('d2t')!);
  },
  prepareWeights: async () => library.prepareWeights(await checkpoint(), []),
  findCachedModel: async () => {
    await downloaded();
    return library.findCachedModel(library.parseHubId('tiny/target')!);
  },
  downloadModel: () => downloaded(),
  parseHubId: () => library.parseHubId('tiny/target'),
  readHubSettings: () => library.readHubSettings(),
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
  parseSuffixes: () => library.parseSuffixes('describing.\\ + similarlyNow'),
  compareRuns: async () => library.compareRuns(await reported(), await reported()),
  compareAudits: async () => {
    const run = await library.readFinishedRun(await reported());
    return library.compareAudits(run, run);
  },
  readFinishedRun: async () => library.readFinishedRun(await reported()),
  verifyFinishedRun: async () => library.verifyFinishedRun(await reported()),
  createTrainRequest: () => library.createTrainRequest({ system: 'eagle3', data }),
  resumeTraining: async () => {
    await trained();
    return library.resumeTraining(trainFolder);
  },
  startTraining: () => trained(),
  defaultTrainSettings: async () => library.defaultTrainSettings(await drafter()),
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
  readGuardConfiguration: () =>
    library.readGuardConfiguration({ file: { name: 'guard.yaml', text: `upstream: ${engine.url}\n` } }),
  guardPage: () => library.guardPage('/mistletoe', 'GET'),
  watchMetrics: () => takeFirst(library.watchMetrics(`${engine.url}/nothing`)),
  describeReplay: async () => library.describeReplay(await library.replayRecords([guardRecord])),
  replayFile: () => {
    const file = models.freshFolder();
    writeFileSync(file, guardRecord);
    return library.replayFile(file);
  },
  replayRecords: () => library.replayRecords([guardRecord]),
  rehearse: async () =>
    library.rehearse({ model: await model(), drafter: await drafter(), prompts: [[0, 1, 2]] }),
  describeSwitch: () => library.describeSwitch('vllm', 1),
  rehearseUpstream: () =>
    takeFirst(
      library.rehearseUpstream({ url: engine.url, model: 'tiny', metricsPath: '/metrics', prompts: [text] }),
    ),
  CausalModel: async () => {
    const { name, configuration, scope, weights, runtime } = await model();
    return new library.CausalModel({ name, configuration, scope, weights, runtime });
  },
  loadModel: async () => {
    const own = await library.loadModel(targetFolder);
    const { rows, argmax } = await own.forward({
      ...{ tokens: Int32Array.of(0, 1), cache: own.createCache(), want: ['argmax'] },
    });
    expect([rows, argmax]).toBeDefined();
    return own.runtime.dispose();
  },
  parseConfiguration: async () => library.parseConfiguration((await checkpoint()).config, 'config.json'),
  KvCache: async () => {
    const { configuration, runtime } = await model();
    new library.KvCache(configuration, runtime).release();
  },
  loadTokenizer: () => library.loadTokenizer(targetFolder),
  encodeChat: async () =>
    library.encodeChat(
      await library.loadTokenizer(library.bundledTarget),
      await library.requireChatTemplate(library.bundledTarget),
      [{ role: 'user', content: 'Hi' }],
    ),
  loadChatTemplate: () => library.loadChatTemplate(targetFolder),
  renderChat: async () =>
    library.renderChat(await library.requireChatTemplate(library.bundledTarget), [
      { role: 'user', content: 'Hi' },
    ]),
  requireChatTemplate: () => library.requireChatTemplate(library.bundledTarget),
  inlinePrompt: () => library.inlinePrompt(text),
  loadPrompts: () => library.loadPrompts(library.bundledPrompts),
  gradient: () => library.gradient(library.sum(x, [0, 1]), [x]),
  symbol: () => library.symbol('n'),
  constant: () => constant(1),
  input: () => input('y', [2]),
  weight: () => library.weight('w', [2]),
  attention: () => {
    const rows = input('rows', [1, 2, 1, 4]);
    const segments = [{ kind: 'own' as const, keys: rows, values: rows }];
    return library.attention(rows, segments, input('mask', [2, 2]), { heads: 1, keyValueHeads: 1, scale: 1 });
  },
  contract: () => library.contract(x, x, 'row i, column i -> row column'),
  matmul: () => library.matmul(x, input('y', [4, 2])),
  add: () => library.add(x, one),
  cast: () => library.cast(x, 'int32'),
  divide: () => library.divide(x, one),
  equal: () => library.equal(x, one),
  exponential: () => library.exponential(x),
  greater: () => library.greater(x, one),
  logarithm: () => library.logarithm(x),
  maximum: () => library.maximum(x, one),
  minimum: () => library.minimum(x, one),
  multiply: () => library.multiply(x, one),
  negate: () => library.negate(x),
  reciprocalSquareRoot: () => library.reciprocalSquareRoot(x),
  select: () => library.select(library.greater(x, one), x, one),
  sigmoid: () => library.sigmoid(x),
  silu: () => library.silu(x),
  stopGradient: () => library.stopGradient(x),
  subtract: () => library.subtract(x, one),
  draw: () => library.draw(x, input('uniform', [2])),
  keepLikeliest: () => library.keepLikeliest(x, indices, input('mass', [2])),
  argmax: () => library.argmax(x),
  gatherRows: () => library.gatherRows(x, indices),
  oneHot: () => library.oneHot(indices, 3),
  pick: () => library.pick(x, indices),
  topIndices: () => library.topIndices(x, 2),
  topValues: () => library.topValues(x, 2),
  logSoftmax: () => library.logSoftmax(x),
  mean: () => library.mean(x, [0]),
  reduceMaximum: () => library.reduceMaximum(x),
  rmsNorm: () => library.rmsNorm(x, input('scale', [4]), 1e-5),
  softmax: () => library.softmax(x),
  sum: () => library.sum(x, [0]),
  rotate: () => library.rotate(input('heads', [1, 2, 1, 4]), input('cosine', [2, 2]), input('sine', [2, 2])),
  broadcast: () => library.broadcast(x, [3, 2, 4]),
  concatenate: () => library.concatenate([x, x], 0),
  pad: () => library.pad(x, 0, 1, 1),
  reshape: () => library.reshape(x, [8]),
  slice: () => library.slice(x, 1, 1),
  transpose: () => library.transpose(x, [1, 0]),
  createRuntime: async () => (await library.createRuntime()).dispose(),
  countGpuBytes: () => library.countGpuBytes([targetFolder], 'bfloat16'),
  estimateGpuMemory: async () => library.estimateGpuMemory((await model()).configuration, 'bfloat16'),
  createOnnxRuntime: () => library.createOnnxRuntime().dispose(),
  bufferOf: async () =>
    library.bufferOf({ x: library.resident((await model()).runtime.allocate(1, 2)) }, 'x'),
  float32: () => library.float32(Float32Array.of(1), [1]),
  floatsOf: () => library.floatsOf({ x: library.float32(Float32Array.of(1), [1]) }, 'x'),
  int32: () => library.int32([1]),
  integersOf: () => library.integersOf({ x: library.int32([1]) }, 'x'),
  resident: async () => library.resident((await model()).runtime.allocate(1, 2)),
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
