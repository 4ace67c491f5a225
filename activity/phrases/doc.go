// Package phrases finds muted words and phrases in the texts of posts.
//
// [Canonical] returns the form in which a phrase is recorded. A [Text] is cut by the same rules. It
// returns the canonical form of any of its units in a row, which is looked up among the recorded
// phrases. A text contains a phrase if the units of the phrase stand in it one after the other.
//
// # Characters
//
// Both are compared in compatibility composition (NFKC of UAX 15) and case folding, with these
// changes:
//
//   - Default-ignorable characters are removed first: soft hyphens, zero-width spaces, controls of
//     direction, variation selectors. ZWJ stays within emoji. So mu<soft hyphen>te is mute. An
//     Arabic tatweel is removed, too.
//   - Letters of the Latin, Greek, Cyrillic, Arabic and Hebrew scripts, and digits, lose marks that
//     do not compose with them. So Arabic and Hebrew match with and without vowel signs, and
//     Cyrillic with and without stress marks. But é is not e.
//   - Such a letter with more than four marks loses all of them, also those that compose. Text that
//     is defaced with marks ("zalgo") is read without them.
//   - Marks that belong to no script are dropped from every letter unless they compose with it.
//     Other marks stay, at most eight on a letter: vowel signs of Hindi, tone marks of Thai.
//   - I, i, İ and ı are one letter, i, because I is the capital of i, and in Turkish that of ı.
//   - By case folding, ß is ss, and a final sigma is a sigma.
//   - The apostrophes ’ ‘ ‛ ʼ and the Hebrew geresh are ', and a Hebrew gershayim is ".
//   - The signs ™ and ℠ are spaces, not the letters tm and sm at the end of a name.
//   - A byte that is not UTF-8 is a space.
//
// # Units
//
// Units are the words of UAX 29, with these changes:
//
//   - Dots and colons between letters, and underscores, separate words: example.com is the two
//     words example com, and foo_bar is foo bar. So a URL is cut at its punctuation:
//     https://example.com/foo-bar?x=1 is https example com foo bar x 1. Numbers stay whole: 3.14
//     and 1,000 are words.
//   - An apostrophe between letters separates words after an elided article or pronoun (l'homme,
//     dell'acqua, qu'il), and before 's, 'd, 'll, 're and 've. So trump is found in Trump's, and
//     homme in l'homme. Any other word with an apostrophe inside is one word: don't, o'clock. So is
//     a Hebrew word with ' or " between letters. An apostrophe at either end of a word is dropped.
//   - A sign # directly before a word, an emoji or a letter is a unit, which joins it without a
//     space: #tag is # and tag. So tag is found in #tag, and #tag only as a hashtag.
//   - A handle is one unit with its host: @alice, @alice.bsky.social, @alice@mastodon.social. It
//     consists of letters, digits and underscores, with single dots and dashes between them. So
//     alice is not found in @alice, and @alice not in @alice.bsky.social. In a@b.example, the @
//     directly after a word begins no handle: the words are a b example.
//   - An emoji is a unit, as a whole sequence of UTS 51: flags, keycaps, families, skin tones. Skin
//     tones stay distinct. Variation selectors are removed, so both forms of ❤ are one.
//   - In scripts that are written without spaces, each letter with its marks is a unit, so a phrase
//     is found inside a run. These are Han, Hiragana, Katakana, Thai, Lao, Khmer, Burmese, Tibetan,
//     Javanese, Balinese and others that UAX 29 does not cut into words. Such letters are neither
//     part of a handle nor of another word: @aliceさん is @alice and two units.
//   - A single letter of ASCII with ++ or # after it is a word: c++, c#. Otherwise, C++ would be
//     the phrase c. If the # makes a hashtag, it is not part of the word: C#tag is c and #tag.
//
// Other punctuation, other symbols (© $ + &), spaces and controls separate units and are none:
// AT&T is at t, and $5 is 5.
//
// # Canonical form
//
// One space stands between units, but none after the # of a hashtag, nor between two letters of
// scripts that are written without spaces, whatever separated them. As this depends on the two
// units only, a text has one canonical form, and that of each of its phrases is a part of it. No
// phrase is copied to be looked up.
//
// Recorded phrases rely on these rules. A test keeps the form of each character. Tables of a newer
// Unicode may change only characters that it adds. Today, normalisation is that of Unicode 15, and
// word boundaries are those of Unicode 17.
//
// # What is not found
//
//   - Other forms of a word: mute is not found in muted, nor a Korean word with its particles, nor
//     words within a compound.
//   - Other spellings: simplified and traditional Han, Hiragana and Katakana, é and e, alef with
//     and without hamza, ٣ and 3.
//   - Look-alikes: letters of other scripts, digits for letters (l33t), letters with spaces or
//     punctuation between them.
//   - Escapes: %20 in URLs and entities of HTML are not decoded.
//
// # Sources
//
// Words: Unicode Standard Annex 29, Unicode Text Segmentation, https://unicode.org/reports/tr29/.
// Normalisation: Annex 15, https://unicode.org/reports/tr15/. Emoji: Technical Standard 51,
// https://unicode.org/reports/tr51/.
package phrases
