/** The result of a run from its request and its finished units alone: what result.json must say, models or not. */
import { basename } from 'node:path';
import type { RecordedDevice } from '../runtime/device-choice.js';
import type { AuditRequest } from './audit-request.js';
import { collectTransfer, transferKey } from './arms/transfer.js';
import { armKeys, collectPrompt, unitKey } from './arms/drafter-units.js';
import type { AuditResult, DrafterResult, FailedUnit } from './result.js';
import { resultSchema, transferSchema, unitSchema, universalSchema } from './result.js';
import type { UnitSource } from '../runs/run-units.js';
import { summariseDrafter } from './summary.js';
import { universalKey } from './arms/universal.js';

export function rebuildResult(request: AuditRequest, units: UnitSource): AuditResult {
  const drafters = request.drafters.map(({ id }): DrafterResult => {
    const prompts = request.prompts.map((prompt) => collectPrompt(units, request, id, prompt));
    return { drafter: id, prompts, summary: summariseDrafter(prompts, request.seed) };
  });
  const failedUnits = listFailed(request, units);
  return {
    schema: resultSchema,
    setup: describeSetup(request),
    drafters,
    transfer: request.transfer ? collectTransfer(units, request, drafters) : null,
    universal: request.drafters.flatMap(({ id }) => {
      const found = units.get(universalKey(id), universalSchema) ?? null;
      return found === null || 'failed' in found ? [] : [found];
    }),
    ...(failedUnits.length === 0 ? {} : { failedUnits }),
  };
}

/** In the order of the run. */
function listFailed(request: AuditRequest, units: UnitSource): FailedUnit[] {
  const { drafters, prompts } = request;
  const failed: FailedUnit[] = [];
  const add = (unit: string, data: object | null | undefined): void => {
    if (data != null && 'failed' in data) failed.push({ unit, error: String(data.failed) });
  };
  for (const { id } of drafters) {
    for (const prompt of prompts)
      for (const key of armKeys(request, id, prompt.id)) {
        const unit = unitKey(id, prompt.id, key);
        const data = units.get(unit, unitSchema);
        if (data !== undefined && 'failed' in data) add(unit, { failed: data.skipped });
      }
    add(universalKey(id), units.get(universalKey(id), universalSchema));
  }
  for (const { id: found } of drafters)
    for (const { id: measured } of drafters)
      for (const { id } of prompts) {
        const unit = transferKey(found, measured, id);
        add(unit, units.get(unit, transferSchema));
      }
  return failed;
}

const describeDevice = (device: RecordedDevice): { readonly device: string; readonly dtype: string } => ({
  device: device.kind === 'cpu' ? 'cpu' : device.name,
  dtype: device.dtype,
});

export function describeSetup(request: AuditRequest): AuditResult['setup'] {
  const { version, node, target, preset, seed, settings, command, prompts } = request;
  return {
    version,
    node,
    target,
    drafters: request.drafters.map(({ name, parameterCount, sha256, id, system, policy }) => ({
      name,
      parameterCount,
      sha256,
      id,
      system,
      policy: policy.replace(/(?<=^tree:).*\.json$/s, (path) => basename(path)),
    })),
    preset,
    seed,
    options: {
      ...settings,
      suffixes: request.suffixes.length,
      threads: request.threads,
      ...(request.device === undefined ? {} : describeDevice(request.device)),
      ...(request.chatTemplate === undefined ? {} : { chatTemplate: request.chatTemplate.origin }),
      ...(request.date === undefined ? {} : { date: request.date }),
      transfer: request.transfer,
      universal: request.universal,
    },
    command,
    promptCount: prompts.length,
  };
}
