/** Names of files can hold characters that nobody sees, or that reverse the order of those around them. */

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The name with every such character spelled out, so that `exe.gpj` reversed does not look like `jpg.exe`. */
export const visible = (name: string): string =>
  name.replace(UNSEEN, (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** The name for a file on the visitor's own computer, without such characters. */
export const plain = (name: string): string => name.replace(UNSEEN, "_");
