/** A runtime whose passes fail when a test says so, as those of a device do. */
import type { MixedValues, Program, Runtime } from '../../src/runtime/program.js';

export interface FailingOptions extends Pick<Runtime, 'rowsPerPass'> {
  /** Throws in place of a pass. `isOfSearch`: programs of decoding ask for packed weights, those of a search do not. */
  readonly beforeRun: (inputs: MixedValues, isOfSearch: boolean) => void;
}

export function createFailingRuntime(inner: Runtime, { beforeRun, ...wishes }: FailingOptions): Runtime {
  return {
    name: `${inner.name}, failing`,
    ...wishes,
    allocate: (...size) => inner.allocate(...size),
    async compile(outputs, weights, options = {}) {
      const program = await inner.compile(outputs, weights, options);
      return Object.create(program, {
        run: {
          value: async (inputs: MixedValues, wanted: readonly string[]) => {
            beforeRun(inputs, options.packed !== true);
            return program.run(inputs, wanted);
          },
        },
      }) as Program;
    },
    dispose: () => inner.dispose(),
  };
}
