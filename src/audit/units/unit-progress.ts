/** Progress of a unit on its way from a worker to the display. Through a queue it is untrusted, like everything else. */
import { z } from 'zod';
import { tracePointSchema } from '../result.js';
import type { RunnerHooks } from './unit-runner.js';

const name = z.object({ drafter: z.string(), prompt: z.string(), arm: z.string() });

export const progressSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), name }),
  z.object({ kind: z.literal('step'), name, point: tracePointSchema, steps: z.number() }),
  z.object({ kind: z.literal('end'), name, acceptedLength: z.number().nullable() }),
]);
export type UnitProgress = Readonly<z.infer<typeof progressSchema>>;

/** The hooks of a runner whose progress goes through one function. */
export function hooksFor(
  send: (progress: UnitProgress) => void,
): Pick<RunnerHooks, 'onStart' | 'onStep' | 'onEnd'> {
  return {
    onStart: (name) => {
      send({ kind: 'start', name: { ...name } });
    },
    onStep: (name, point, steps) => {
      send({ kind: 'step', name: { ...name }, point: { ...point }, steps });
    },
    onEnd: (name, acceptedLength) => {
      send({ kind: 'end', name: { ...name }, acceptedLength: acceptedLength ?? null });
    },
  };
}
