/** Functions of CUDA's libraries. */
import { MistletoeError, describeCause } from '../../../core/errors.js';
import { firstLine, type NativeLibrary, type NativeValue } from '../../native-library.js';

export type StatusFunction = (...values: NativeValue[]) => number;

/** Binds functions by name and C parameters; each returns a status. */
export function bindFunctions<Name extends string>(
  library: NativeLibrary,
  parameters: Readonly<Record<Name, string>>,
): Readonly<Record<Name, StatusFunction>> {
  const bind = ([name, list]: [string, string]): [string, StatusFunction] => {
    try {
      return [name, library.bind(`int ${name}(${list})`) as StatusFunction];
    } catch (cause) {
      throw new MistletoeError(
        'runtime',
        `${library.path} cannot be used: ${firstLine(describeCause(cause))}.`,
        { hint: 'CUDA 12.0 or later is needed: install a newer driver and newer CUDA libraries.', cause },
      );
    }
  };
  return Object.fromEntries(Object.entries<string>(parameters).map(bind)) as Record<Name, StatusFunction>;
}
