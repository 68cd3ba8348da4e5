/**
 * Mistletoe as a library. Every command of the command line is one of these functions away: `generate` is generateText
 * or, with a drafter, generateSpeculatively; `inspect` is inspectCheckpoint, `bench` runBenchmark, `audit` runAudit,
 * `compare` compareRuns, `train` startTraining, `harden` startHardening, `doctor` examineEngine, `guard` startGuard, `guard --scrape` watchMetrics, `guard replay`
 * replayFile, `guard rehearse` rehearse and rehearseUpstream, `audit --verify` verifyFinishedRun, and `cache`
 * describeCache, trimCache, clearCache and verifyCache. docs/library.md has an example of each.
 */

// Failures that a user can cause or meet.
export { MistletoeError } from './core/errors.js';
export type { ErrorCode } from './core/errors.js';

/**
 * Opening a model folder and answering prompts.
 * @example
 * import { bundledTarget, createOnnxRuntime, generateText, openTarget } from '@mistletoe-ai/mistletoe';
 * const runtime = createOnnxRuntime({ threads: 2 });
 * const target = await openTarget(bundledTarget, { runtime });
 * const { text } = await generateText(target, 'Why is the sky blue?', { maxNewTokens: 64 });
 * await runtime.dispose();
 */
export { bundledPrompts, bundledTarget } from './decode/bundled-models.js';
export { encodePrompt, generateText, openTarget } from './decode/target.js';
export type { GenerateOptions, PromptEncoding, Target, TargetOptions } from './decode/target.js';
export { decodePlain } from './decode/plain.js';
export type { Generation, GenerationRequest } from './decode/plain.js';
/**
 * Speculative decoding: the same answer, drafted by a small model and verified by the target.
 * @example
 * const drafter = await loadDrafter(bundledDrafterFolder('eagle3'), { target: target.model });
 * const { text, acceptance } = await generateSpeculatively(target, drafter, 'Why is the sky blue?');
 * acceptance.meanAcceptedLength; // accepted draft tokens per step, and the target's own
 */
export {
  createPolicy,
  defaultDraftPolicy,
  generateSpeculatively,
  isSpeculative,
} from './decode/speculative-text.js';
export type { SpeculativeOptions } from './decode/speculative-text.js';
export { bundledDrafterFolder, bundledDrafters } from './decode/bundled-models.js';
export { findDrafter } from './decode/find-drafter.js';
export type { BundledDrafter } from './decode/bundled-models.js';
export { always } from './decode/policies/policy-chooser.js';
export { decodeSpeculative } from './decode/speculative.js';
export type { PolicyChooser, StepOutcome } from './decode/policies/policy-chooser.js';
export type { SpeculativeGeneration, SpeculativeRequest } from './decode/speculative.js';
export type { AcceptanceRecord } from './decode/acceptance.js';
export { verificationRules } from './decode/verification/verification.js';
export type { VerificationRule } from './decode/verification/verification.js';
export { loadDrafter } from './draft/load-drafter.js';
export type { DrafterOptions, DraftSystem } from './draft/draft-system.js';
export type { Drafter } from './draft/drafter.js';
export { formatDraftPolicy, parseDraftPolicy } from './draft/tree/policy.js';
export type { DraftPolicy } from './draft/tree/policy.js';
export type { FinishReason, TokenEvent, TokenOrigin } from './decode/answer.js';
export type { SamplingOptions } from './core/sampling.js';

/**
 * Many answers at once, here or in a thread of their own.
 * @example
 * const engine = new Engine({ concurrency: 8 });
 * const answers = await Promise.all(
 *   prompts.map((prompt) => engine.run((scheduler) => generateText(target, prompt, { scheduler }))),
 * );
 */
export { Engine } from './decode/engine/engine.js';
export type { EngineCounts, EngineLoad, EngineOptions, SequenceOptions } from './decode/engine/engine.js';
export { sequenceBytes } from './decode/engine/sequence-bytes.js';
export type { PassScheduler } from './model/lanes/pass-scheduler.js';
export { createEngineWorker } from './decode/engine/engine-worker.js';
export type {
  EngineWorker,
  EngineWorkerOptions,
  WorkerGenerateOptions,
} from './decode/engine/engine-worker.js';

/**
 * Answering over HTTP, with OpenAI's interface.
 * @example
 * const server = await startServer({ target: bundledTarget, drafters: { eagle3: 'eagle3' }, port: 0 });
 * await fetch(`${server.url}/v1/models`);
 * await server.close();
 */
export { startServer } from './serve/serve.js';
export type { RunningServer, ServeOptions } from './serve/serve.js';
export type { ServerLimits } from './serve/limits.js';
export type { NamedKey } from './serve/access.js';

/**
 * Measuring drafters against plain decoding.
 * @example
 * const { summaries } = await runBenchmark({
 *   target, systems, promptSets, maxNewTokens: 96, sampling: { temperature: 0 }, seed: 0, warmup: 1,
 * });
 */
export { runBenchmark } from './measure/benchmark.js';
export type {
  BenchmarkEvents,
  BenchmarkOptions,
  BenchmarkResult,
  BenchmarkSystem,
  PromptSet,
  Throughput,
} from './measure/benchmark.js';
export type { RequestRecord } from './measure/benchmark-record.js';
export type { SpeculationSummary, SystemSummary } from './measure/benchmark-summary.js';
export { describeMachine } from './measure/machine.js';
export { formatBenchmark } from './report/benchmark-table.js';
export type { BenchmarkSetting } from './report/benchmark-table.js';

/**
 * Looking into a folder without running it.
 * @example
 * const { kind, problems } = await inspectCheckpoint('models/reference/eagle3'); // 'eagle3', []
 */
export { inspectCheckpoint } from './draft/inspection.js';
export type { Inspection } from './draft/inspection.js';
export { recogniseCheckpoint, systems } from './draft/systems.js';
export type { Recognition } from './draft/systems.js';
export { findProblems, openCheckpoint } from './checkpoint/open-checkpoint.js';
export type { Problem } from './checkpoint/open-checkpoint.js';
export type { Checkpoint, StoredTensor } from './checkpoint/stored-tensor.js';
export { readFloat32, readIntegers } from './checkpoint/read-tensor.js';
export { prepareWeights } from './checkpoint/cache/weight-cache.js';
export type { CacheOptions } from './checkpoint/cache/weight-cache.js';

/**
 * Models by their names on the Hugging Face hub: from its cache, or fetched into it.
 * @example
 * const folder = await downloadModel(parseHubId('lmsys/vicuna-7b-v1.5')!);
 * const target = await openTarget(folder, { runtime });
 */
export { findCachedModel } from './checkpoint/hub/hub-cache.js';
export { downloadModel } from './checkpoint/hub/hub-download.js';
export type { DownloadOptions, DownloadProgress } from './checkpoint/hub/hub-download.js';
export { parseHubId } from './checkpoint/hub/hub-settings.js';
export type { HubId } from './checkpoint/hub/hub-settings.js';
export { readHubSettings } from './checkpoint/hub/hub-settings.js';
export type { HubSettings } from './checkpoint/hub/hub-settings.js';

/**
 * The cache of converted weights: what `mistletoe cache` does.
 * @example
 * const folder = defaultCacheFolder();
 * const { weights, totalBytes } = await describeCache(folder);
 * await trimCache(folder, 20e9);
 */
export { defaultCacheFolder } from './core/default-cache-folder.js';
export { describeCache, verifyCache } from './checkpoint/cache/cache-contents.js';
export type { CacheContents, CheckedWeights } from './checkpoint/cache/cache-contents.js';
export { clearCache, trimCache } from './checkpoint/cache/cache-removal.js';
export type { Removal } from './checkpoint/cache/cache-removal.js';

/**
 * Auditing a drafter: does a suffix slow it down while the answer stays the same?
 * @example
 * const outcome = await runAudit('runs/first', { prompts: [inlinePrompt('Why is the sky blue?')], preset: 'quick' });
 * if (outcome.status === 'complete') judge(outcome.result, { failIfDrop: 0.3 }).headline;
 */
export { runAudit } from './audit/run-audit.js';
export { createRequest } from './audit/create-request.js';
export type { AuditPlan } from './audit/create-request.js';
export type { AuditRequest } from './audit/audit-request.js';
export { planAudit, resumeAudit, startAudit } from './audit/run-audit.js';
export type { Effort } from './audit/effort.js';
export type { AuditOptions, AuditOutcome } from './audit/run-audit.js';
export type { RunPlace } from './runs/run-place.js';
export type { AuditEvents, UnitName } from './audit/audit-events.js';
export { presets } from './audit/settings.js';
export type { AuditSettings, PresetName } from './audit/settings.js';
export type { AuditTimings } from './audit/arms/phase-clock.js';
export type { AuditResult } from './audit/result.js';
export { judge } from './report/audit/verdict.js';
export type { Gate, Verdict } from './report/audit/verdict.js';
export { writeReports } from './report/audit/write-reports.js';
export { parseSuffixes } from './text/prompts/suffix-list.js';
export type { GivenSuffix } from './text/prompts/suffix-list.js';

/**
 * Two finished audits side by side.
 * @example
 * const comparison = await compareRuns('runs/before', 'runs/after');
 */
export { compareRuns } from './report/compare/finished-run.js';
export { compareAudits } from './report/compare/comparison.js';
export type { Comparison } from './report/compare/comparison-record.js';
export { readFinishedRun } from './report/compare/finished-run.js';
/** Whether a run is as it was written: `mistletoe audit --verify`. */
export { verifyFinishedRun } from './report/audit/verify-run.js';
export type { RunVerification } from './report/audit/verify-run.js';

/**
 * Training a drafter for a target, from fresh weights or on from one. A run is a folder that goes on after a kill.
 * @example
 * const request = await createTrainRequest({ system: 'eagle3', data: 'questions.jsonl', settings: { steps: 500 } });
 * const outcome = await startTraining('runs/eagle3', request);
 * if (outcome.status === 'complete') await writeTrainingReports(outcome.folder, outcome.result);
 * const drafter = await loadDrafter('runs/eagle3/best', { target: target.model });
 */
export { createTrainRequest } from './train/train-request.js';
export type { DrafterShape, TrainPlan, TrainRequest } from './train/train-request.js';
export { resumeTraining, startTraining } from './train/train-run.js';
export type { StartedTraining, TrainEvents, TrainOptions, TrainOutcome } from './train/train-run.js';
export { trainableSystems } from './train/systems/new-drafter.js';
export type { TrainableSystem } from './train/systems/new-drafter.js';
export { defaultSettings as defaultTrainSettings } from './train/settings.js';
export type { TrainSettings } from './train/settings.js';
export type { AnswersProgress } from './train/data/answers.js';
export type { LogLine } from './train/loop/training-log.js';
export type { TrainingResult } from './train/training-result.js';
export { writeTrainingReports } from './report/training/training-report.js';
export type { TrainingReports } from './report/training/training-report.js';

/**
 * Hardening a drafter against suffixes, with audits of what came of it. A run is a folder, too.
 * @example
 * const request = await createHardenRequest({ drafter: 'eagle3', data: 'questions.jsonl', prompts });
 * const outcome = await startHardening('runs/hard', request);
 * if (outcome.status === 'complete') await writeHardeningReports(outcome.folder, outcome.result);
 */
export { createHardenRequest } from './train/harden/harden-request.js';
export type { HardenPlan, HardenRequest } from './train/harden/harden-request.js';
export { resumeHardening, startHardening } from './train/harden/harden-run.js';
export type { HardenEvents, HardenOptions, HardenOutcome } from './train/harden/harden-run.js';
export { hardeningDefaults } from './train/harden/hardening-settings.js';
export type { Baseline, HardeningAudit, HardeningSettings } from './train/harden/hardening-settings.js';
export type { AuditComparison, HardenedChange, HardeningResult } from './train/harden/hardening-result.js';
export { writeHardeningReports } from './report/harden/hardening-report.js';
export type { HardeningReports } from './report/harden/hardening-report.js';

/**
 * What running engines tell about their drafts: of themselves, and in one answer.
 * @example
 * const { engine, perRequest } = await examineEngine('http://localhost:8000');
 * const { speculation } = findSpeculation(await response.json()); // { steps: 41, accepted: 87, ... }
 */
export { examineEngine } from './guard/doctor.js';
export type { ExamineOptions } from './guard/doctor.js';
export type { EngineReport, Telemetry } from './guard/engine-report.js';
export { findSpeculation } from './guard/speculation/find-speculation.js';
export type { Finding } from './guard/speculation/find-speculation.js';
export type { EngineName, Speculation } from './guard/request-record.js';

/**
 * Watching an engine in production: a proxy in front of it, its counters alone, or what was recorded.
 * @example
 * const guard = await startGuard(configureGuard({ upstream: 'http://127.0.0.1:8000', records: { folder: './guard' } }));
 * guard.url; // where clients connect from now on
 * await guard.close();
 * const { alarms } = await replayFile('./guard', { falseAlarms: 0.001 });
 */
export { startGuard } from './guard/guard.js';
export type { Guard, GuardEventName, GuardOptions } from './guard/guard.js';
export { configureGuard, readConfiguration as readGuardConfiguration } from './guard/config-file.js';
export type { ConfigurationSources } from './guard/config-file.js';
export type { GivenConfiguration as GuardSettings, GuardConfiguration } from './guard/guard-config.js';
export { pageHandler as guardPage } from './dashboard/page-handler.js';
export { watchMetrics } from './guard/watch-metrics.js';
export type { WatchedMetrics, WatchedWindow } from './guard/watch-metrics.js';
export type { ScrapeOptions } from './guard/scrape.js';
export { describeReplay, replayFile, replayRecords } from './guard/replay.js';
export type { Replay, ReplayOptions } from './guard/replay.js';
export type { ActionEvent, Alarm } from './guard/alarm.js';
export type { RequestRecord as GuardRecord } from './guard/request-record.js';

/**
 * A collapse without an attack: what it costs, and whether the alarm rings.
 * @example
 * const rehearsal = await rehearse({ model: target.model, drafter, prompts: [await encodePrompt(target, 'Hello')] });
 * rehearsal?.stages.map(({ tokensPerSecond }) => tokensPerSecond);
 */
export { rehearse } from './guard/rehearsal.js';
export type { Rehearsal, RehearsalAlarm, RehearsalOptions, RehearsalStage } from './guard/rehearsal.js';
export { describeSwitch, rehearseUpstream } from './guard/rehearsal-upstream.js';
export type { RehearsedRequest, UpstreamEvent, UpstreamRehearsal } from './guard/rehearsal-upstream.js';

/**
 * The model itself, one pass at a time.
 * @example
 * const model = await loadModel(bundledTarget, { runtime });
 * const cache = model.createCache();
 * const { rows, logits } = await model.forward({ tokens: Int32Array.of(1, 536), cache, want: ['logits'] });
 * cache.appendAll(rows, 2);
 */
export { CausalModel, loadModel } from './model/causal-model.js';
export type { LoadOptions } from './model/causal-model.js';
export type { ForwardRequest, ForwardResult } from './model/forward.js';
export { parseConfiguration } from './model/configuration.js';
export type { ModelConfiguration } from './model/configuration.js';
export { KvCache } from './model/cache/kv-cache.js';

/**
 * Text to tokens and back.
 * @example
 * const tokenizer = await loadTokenizer(bundledTarget);
 * tokenizer.decode(await tokenizer.encode('Hello')); // 'Hello'
 */
export { loadTokenizer } from './text/tokenizer/tokenizer.js';
export type { Tokenizer } from './text/tokenizer/tokenizer.js';
export {
  encodeChat,
  loadChatTemplate,
  renderChat,
  requireChatTemplate,
} from './text/template/chat-template.js';
export type { ChatMessage, ChatTemplate, TemplateOptions } from './text/template/chat-template.js';
export { inlinePrompt, loadPrompts } from './text/prompts/prompt-set.js';
export type { Prompt } from './text/prompts/prompt-set.js';

/**
 * Graphs: build, differentiate, compile, run.
 * @example
 * const x = input('x', [3]);
 * const loss = sum(multiply(x, x), [0]);
 * const [slope] = gradient(loss, [x]);
 * const program = await createOnnxRuntime().compile({ slope });
 * const { slope: values } = await program.run({ x: float32(Float32Array.of(1, 2, 3), [3]) }); // 2, 4, 6
 */
export { gradient } from './graph/gradient.js';
export { symbol } from './graph/dimension.js';
export type { Dimension, Shape } from './graph/dimension.js';
export type { DType, Tensor } from './graph/tensor.js';
export { constant, input, weight } from './graph/operations/leaves.js';
export { attention } from './graph/operations/attention.js';
export type { AttentionSegment } from './graph/operations/attention.js';
export { contract, matmul } from './graph/operations/contraction.js';
export {
  add,
  cast,
  divide,
  equal,
  exponential,
  greater,
  logarithm,
  maximum,
  minimum,
  multiply,
  negate,
  reciprocalSquareRoot,
  select,
  sigmoid,
  silu,
  stopGradient,
  subtract,
} from './graph/operations/elementwise.js';
export { draw, keepLikeliest } from './graph/operations/drawing.js';
export { argmax, gatherRows, oneHot, pick, topIndices, topValues } from './graph/operations/indexing.js';
export { logSoftmax, mean, reduceMaximum, rmsNorm, softmax, sum } from './graph/operations/reductions.js';
export { rotate } from './graph/operations/rotation.js';
export { broadcast, concatenate, pad, reshape, slice, transpose } from './graph/operations/shaping.js';
export { createRuntime } from './runtime/create-runtime.js';
export type { RuntimeOptions } from './runtime/create-runtime.js';
export type { ComputeType, DeviceWish, RecordedDevice } from './runtime/device-choice.js';
export { countGpuBytes } from './decode/gpu-fit.js';
export { estimateGpuMemory } from './decode/gpu-fit.js';
export type { GpuMemory } from './decode/gpu-fit.js';
export { createOnnxRuntime } from './runtime/onnx/onnx-runtime.js';
export type { OnnxRuntimeOptions } from './runtime/onnx/onnx-runtime.js';
export { bufferOf, float32, floatsOf, int32, integersOf, resident } from './runtime/program.js';
export type {
  Destination,
  MixedValues,
  NamedTensors,
  NamedValues,
  Program,
  ResidentValue,
  Runtime,
  TensorValue,
} from './runtime/program.js';
export type { RowBuffer } from './runtime/row-buffer.js';
export type { WeightStore } from './runtime/weights.js';
