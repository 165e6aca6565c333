/** How well a title fits what was typed: 0 for not at all. Letters must come in order, words and beginnings count more. */
export function rank(title: string, typed: string): number {
  const text = title.toLowerCase();
  const wanted = typed.toLowerCase().trim();
  if (!wanted) return 1;
  const at = text.indexOf(wanted);
  if (at >= 0) return 1000 - at - text.length / 100 + (at === 0 || text[at - 1] === " " ? 500 : 0);
  let score = 0;
  let from = 0;
  let last = -2;
  for (const letter of wanted.replace(/\s+/g, "")) {
    const found = text.indexOf(letter, from);
    if (found < 0) return 0;
    score += found === last + 1 ? 8 : found === 0 || /[\s/._-]/.test(text[found - 1] ?? "") ? 6 : 1;
    last = found;
    from = found + 1;
  }
  return score / (1 + text.length / 80);
}
