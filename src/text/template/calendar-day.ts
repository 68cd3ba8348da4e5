/**
 * The date for chat templates that ask for it (`strftime_now`, Llama 3.1 and later). It is chosen once per run, not read
 * from the clock while rendering, so prompts of one run do not differ after midnight. Names are English on every machine,
 * as in Python's C locale.
 */
import { MistletoeError } from '../../core/errors.js';

/** YYYY-MM-DD. */
export type CalendarDay = string;

export function today(now: Date = new Date()): CalendarDay {
  const year = String(now.getFullYear()).padStart(4, '0');
  return [year, twoDigits(now.getMonth() + 1), twoDigits(now.getDate())].join('-');
}

/** `what` names the value in the message, for example an option. */
export function parseDay(text: string, what: string): CalendarDay {
  // A day such as February 30 is read as one of March.
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(dateOf(text).getTime());
  if (isDay && dateOf(text).toISOString().startsWith(text)) return text;
  throw new MistletoeError('usage', `${what} is ${text}; a day such as 2024-07-26 was expected.`, {
    hint: 'Write year, month and day with dashes between them.',
  });
}

// Not by Intl: a formatter takes half a millisecond and much memory, and a hostile template asks thousands of times.
const months = 'January February March April May June July August September October November December'.split(
  ' ',
);
const weekdays = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** Python's strftime for dates. Directives for the time of day are refused by name. */
export function formatDay(day: CalendarDay, format: string): string {
  const [year = 0, month = 1, dayOfMonth = 1] = day.split('-').map(Number);
  const date = dateOf(day);
  const monthName = months[month - 1] ?? '';
  const weekday = weekdays[date.getUTCDay()] ?? '';
  const dayOfYear = (date.getTime() - dateOf(`${day.slice(0, 4)}-01-01`).getTime()) / 86_400_000 + 1;
  const values: Readonly<Record<string, string>> = {
    '%Y': String(year).padStart(4, '0'),
    '%y': twoDigits(year % 100),
    '%m': twoDigits(month),
    '%-m': String(month),
    '%d': twoDigits(dayOfMonth),
    '%-d': String(dayOfMonth),
    '%e': String(dayOfMonth).padStart(2),
    '%B': monthName,
    '%b': monthName.slice(0, 3),
    '%A': weekday,
    '%a': weekday.slice(0, 3),
    '%j': String(dayOfYear).padStart(3, '0'),
    '%F': day,
    '%%': '%',
  };
  return format.replace(/%-?.?/gsu, (directive) => {
    const value = values[directive];
    if (value !== undefined) return value;
    throw new MistletoeError(
      'text',
      `strftime_now was asked for ${JSON.stringify(directive)}; it knows the day, by ${Object.keys(values).join(' ')}`,
      {
        hint: 'A prompt that changes with the hour cannot be repeated; use a template that asks for the day only.',
      },
    );
  });
}

const dateOf = (day: CalendarDay): Date => new Date(`${day}T00:00:00Z`);

const twoDigits = (value: number): string => String(value).padStart(2, '0');
