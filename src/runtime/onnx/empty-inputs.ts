import { MistletoeError } from '../../core/errors.js';
import { formatShape } from '../../graph/dimension.js';
import type { InputDescription, NamedValues } from '../program.js';

/** ONNX Runtime's matrix kernels crash on empty operands. */
export function refuseEmptyInputs(inputs: readonly InputDescription[], values: NamedValues): void {
  for (const { name } of inputs) {
    const { data, shape } = values[name]!;
    if (data.length > 0) continue;
    throw new MistletoeError(
      'runtime',
      `Input "${name}" has shape ${formatShape(shape)}, expected at least one value along every axis.`,
      { hint: 'Give one masked row where there is nothing yet.' },
    );
  }
}
