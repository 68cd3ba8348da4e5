/**
 * Mistletoe as a library. Every command is also a function here; docs/library.md explains each name and has an example
 * of each function. Modules below this one are internal.
 * @example
 * import { bundledTarget, generateText, openTarget } from '@mistletoe-ai/mistletoe';
 * const { text } = await generateText(await openTarget(bundledTarget), 'What is 12 times 7?');
 */

// Errors a user can cause or run into.
export { MistletoeError, type ErrorCode } from './core/errors.js';

// Open a model folder and generate text, with or without a drafter.
export { bundledTarget, bundledPrompts } from './core/package-files.js';
export { findDrafter } from './decode/find-drafter.js';
export { openTarget, encodePrompt, type Target } from './decode/target.js';
export { generateText, type GenerateOptions } from './decode/generate.js';
export { generateSpeculatively, createPolicy, type SpeculativeOptions } from './decode/generate.js';
export { loadDrafter } from './draft/systems.js';
export { parseDraftPolicy } from './draft/tree/policy.js';
export type { Drafter } from './draft/drafter.js';
export type { Generation } from './decode/request.js';
export type { SpeculativeGeneration } from './decode/request.js';

// Token by token, and many requests at once.
export { decodePlain } from './decode/generate.js';
export { decodeSpeculative } from './decode/generate.js';
export { Engine } from './decode/engine.js';
export { createEngineWorker } from './decode/worker/engine-worker.js';

// `mistletoe serve`.
export { startServer, type ServeOptions } from './serve/serve.js';

// `mistletoe bench`.
export { runBenchmark, type BenchmarkOptions } from './measure/benchmark.js';
export type { BenchmarkResult } from './measure/benchmark-summary.js';
export { formatBenchmark } from './report/benchmark-table.js';
export { describeMachine } from './runs/run-device.js';

// `mistletoe inspect`, models from the Hugging Face hub, and `mistletoe cache`.
export { inspectCheckpoint, type Inspection } from './draft/inspection.js';
export { findCachedModel, parseHubId } from './checkpoint/hub/hub-settings.js';
export { downloadModel } from './checkpoint/hub/hub-download.js';
export { defaultCacheFolder } from './core/files.js';
export { clearCache, describeCache, trimCache, verifyCache } from './checkpoint/cache/cache-contents.js';

// `mistletoe audit` and `mistletoe compare`.
export { runAudit, planAudit, startAudit, resumeAudit } from './audit/run-audit.js';
export type { AuditOptions } from './audit/units/executors.js';
export { createRequest, type AuditPlan } from './audit/audit-request.js';
export { judge, type Gate, type Verdict } from './report/audit/verdict.js';
export { writeReports } from './report/audit/write-reports.js';
export { verifyFinishedRun } from './report/audit/verify-run.js';
export { checkWorse, compareRuns } from './report/compare/comparison.js';
export type { AuditResult } from './audit/result.js';
export type { Comparison } from './report/compare/comparison.js';

// `mistletoe train`.
export { createTrainRequest, type TrainPlan } from './train/train-request.js';
export { startTraining, resumeTraining, type TrainOptions, type TrainingResult } from './train/train-run.js';
export { writeTrainingReports } from './report/training/training-report.js';

// `mistletoe harden`.
export { createHardenRequest, type HardenPlan } from './train/harden/harden-request.js';
export { startHardening, resumeHardening, type HardenOptions } from './train/harden/harden-run.js';
export { writeHardeningReports } from './report/harden/hardening-report.js';
export type { HardeningResult } from './train/harden/hardening-result.js';

// `mistletoe doctor` and `mistletoe guard`.
export { examineEngine, type EngineReport } from './guard/engines/doctor.js';
export { findSpeculation } from './guard/engines/engine-list.js';
export { startGuard, type Guard } from './guard/guard.js';
export { configureGuard } from './guard/config-file.js';
export { readPage as guardPage } from './dashboard/page.js';
export { watchMetrics } from './guard/engines/scrape.js';
export { replayFile, describeReplay } from './guard/records/replay.js';
export type { GivenConfiguration as GuardSettings } from './guard/guard-config.js';
export type { Observation as GuardRecord } from './guard/observation.js';

// Models, tokenizers, prompts and devices on their own.
export { loadModel, type CausalModel } from './model/causal-model.js';
export { loadTokenizer } from './text/tokenizer/tokenizer.js';
export { inlinePrompt, loadPrompts, type Prompt } from './text/prompts/prompt-set.js';
export { createRuntime } from './runtime/create-runtime.js';
export { createOnnxRuntime } from './runtime/onnx/onnx-runtime.js';
export type { Runtime } from './runtime/program.js';
