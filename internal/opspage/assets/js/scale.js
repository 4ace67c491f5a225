// Colours for amounts, from pale to dark, or from dark to pale on a dark page. Lightness alone
// distinguishes them, so colour-blind readers can tell them apart.

const light = ['#f4f1d8', '#c7e3bf', '#7fc8bb', '#3f9fc0', '#2467a5', '#123a78'].map(parse);
const dark = ['#1c2836', '#1f4a70', '#2478a0', '#3fa9ae', '#8fd3ab', '#f2efb6'].map(parse);
const night = matchMedia('(prefers-color-scheme: dark)');

function parse(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/** shade returns the red, green and blue, 0 to 255, of a share of 0 to 1. */
export function shade(share) {
  const stops = night.matches ? dark : light;
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return stops[i].map((low, c) => Math.round(low + (stops[i + 1][c] - low) * (at - i)));
}

/** colour is that of a share as CSS has it. */
export const colour = (share) => `rgb(${shade(share).join(' ')})`;

/** ceiling is the end of a scale from 0 on that takes highest: a short number. */
export function ceiling(highest) {
  if (!(highest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((end) => end >= highest * (1 - 1e-9));
}

/** paintScale draws the whole scale on a canvas, from left to right. */
export function paintScale(canvas) {
  canvas.width = 176;
  canvas.height = 12;
  const pen = canvas.getContext('2d');
  for (let x = 0; x < canvas.width; x++) {
    pen.fillStyle = colour(x / (canvas.width - 1));
    pen.fillRect(x, 0, 1, canvas.height);
  }
}
