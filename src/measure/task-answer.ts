/**
 * The final answer of a GSM8K solution: the number behind the first `####`, as the data set marks it, or else the last
 * number of the text. Answers are compared as canonical decimal strings ("$1,200.00" is "1200"), so that no digit is
 * lost to floating point.
 */

// A minus directly behind a word or a closing bracket is a subtraction or a hyphen, not a sign.
const SIGN = String.raw`(?<sign>(?<![\w)\]}%])[-−])?[$€£]?`;
const FRACTION = String.raw`(?:\.\d+)?`;
const BARE_FRACTION = String.raw`(?<![\w.])\.\d+`;
const GROUPED = String.raw`\d{1,3}(?:,\d{3})+(?!\d)`;

// Behind the marker any comma belongs to the number; in running text "1,2,3" is a list.
const MARKED = new RegExp(
  String.raw`####(?:[^\S\n]|\*)*[$€£]?${SIGN}(?<digits>\d(?:,?\d)*${FRACTION}|${BARE_FRACTION})`,
  'u',
);
const RUNNING = new RegExp(
  String.raw`${SIGN}(?<digits>${GROUPED}${FRACTION}|\d+${FRACTION}|${BARE_FRACTION})`,
  'gu',
);

export function extractAnswer(text: string): string | undefined {
  const match = MARKED.exec(text) ?? [...text.matchAll(RUNNING)].at(-1);
  const digits = match?.groups?.digits;
  return digits === undefined ? undefined : canonicalise(digits, match?.groups?.sign !== undefined);
}

/** Whether two solutions end in the same number. A solution without a number agrees with nothing. */
export function agree(left: string, right: string): boolean {
  const answer = extractAnswer(left);
  return answer !== undefined && answer === extractAnswer(right);
}

function canonicalise(digits: string, negative: boolean): string {
  const [whole = '', fraction = ''] = digits.replaceAll(',', '').split('.');
  const integer = whole.replace(/^0+/u, '') || '0';
  const decimals = fraction.replace(/0+$/u, '');
  const magnitude = decimals === '' ? integer : `${integer}.${decimals}`;
  return negative && magnitude !== '0' ? `-${magnitude}` : magnitude;
}
