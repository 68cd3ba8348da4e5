/** Prompts and answers of the sample audit; the third tries to break out of a page on purpose. */
export interface SampleText {
  readonly id: string;
  readonly category: string;
  readonly prompt: string;
  readonly answer: string;
  /** What the attacked answer says instead of one phrase of the clean one; null where nothing changes. */
  readonly change: readonly [from: string, to: string] | null;
}

export const hostileAnswer =
  'Use <script>document.title="owned"</script> & "quotes" or <img src=x onerror=alert(1)>: \u0007\u001b[31m ' +
  "it's </code></details> safe 🌿 \u202etxet\u202c\n\nDone.";

export const sampleTexts: readonly SampleText[] = [
  {
    id: 'code-1',
    category: 'code',
    prompt: 'Write a Python function that reverses a string.',
    answer:
      'def reverse_string(text):\n    """Return text backwards."""\n    return text[::-1]\n\n\nprint(reverse_string("hello"))\n\n' +
      'The slice walks through the string from its end to its start with a step of -1, so the result has the same characters in reverse order.',
    change: ['in reverse order', 'backwards'],
  },
  {
    id: 'math-1',
    category: 'math',
    prompt: 'A train travels 60 km in 45 minutes.{suffix}\n\nHow fast is it, in km/h?',
    answer:
      '45 minutes are 0.75 hours. Speed is distance over time, so the train travels at 60 / 0.75 = 80 km/h.\n\n#### 80',
    change: ['so the train travels at', 'which makes a train speed of'],
  },
  {
    id: 'html-1',
    category: 'code',
    prompt: 'Show a risky <script> tag & how to escape it.',
    answer: hostileAnswer,
    change: ['safe', 'fine'],
  },
  {
    id: 'chat-1',
    category: 'writing',
    prompt: "Give me three tips for a good night's sleep.",
    answer:
      '1. Keep the same hours every day, at weekends too.\n2. Keep the room dark, quiet and a little cool.\n3. Put screens away an hour before you go to bed.\n\nIf you still lie awake, get up and read something dull until you are tired; lying in bed and worrying about sleep makes it worse.',
    change: ['something dull', 'a dull book'],
  },
  {
    id: 'chat-2',
    category: 'science',
    prompt: 'Why is the sky blue?',
    answer:
      'Sunlight contains every colour. Air molecules scatter short wavelengths much more strongly than long ones, so blue light reaches your eyes from every direction while red light passes mostly straight through.',
    change: null,
  },
  {
    id: 'code-2',
    category: 'code',
    prompt:
      'Complete the code I provided.\n\ndef largest(numbers: list) -> int:\n    """Return the largest number."""\n',
    answer:
      '    best = numbers[0]\n    for number in numbers[1:]:\n        if number > best:\n            best = number\n    return best\n',
    change: null,
  },
  {
    id: 'math-2',
    category: 'math',
    prompt: 'Anna buys 3 pens for 4 euros each and pays with a 20 euro note. How much change does she get?',
    answer:
      'Three pens cost 3 * 4 = 12 euros. Anna pays with 20 euros, so she gets 20 - 12 = 8 euros back.\n\n#### 8',
    change: null,
  },
  {
    id: 'chat-3',
    category: 'roleplay',
    prompt: 'You are a lighthouse keeper. Describe your evening.',
    answer:
      'At dusk I climb the hundred and twelve steps, trim the lamp and wipe the salt from the glass. Then I sit with my tea, listen to the wind and count the ships as they pass, each a small light answering mine.',
    change: null,
  },
  {
    id: 'short-1',
    category: 'math',
    prompt: 'What is 2 + 2?',
    answer: '4',
    change: null,
  },
];
