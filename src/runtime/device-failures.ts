/** Failures of a device that callers can do something about. */
import { MistletoeError } from '../core/errors.js';

/** What was asked for at once does not fit on the device: less of it may. */
export class OutOfMemoryError extends MistletoeError {
  constructor(message: string, hint: string) {
    super('runtime', message, { hint });
  }
}
