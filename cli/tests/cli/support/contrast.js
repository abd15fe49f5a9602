// Returns the texts whose contrast with their background is below 4.5, WCAG 2's level AA for text of normal size.
const numbers = (color) => color.match(/[\d.]+/g).map(Number);
const luminance = ([red, green, blue]) => {
  const linear = [red, green, blue].map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const background = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const color = numbers(getComputedStyle(one).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const low = [];
for (const element of document.querySelectorAll("h1, h2, p, span, strong, time, button.open, small")) {
  if (element.offsetParent === null || element.textContent.trim() === "" || element.children.length > 0) continue;
  const [one, other] = [luminance(numbers(getComputedStyle(element).color)), luminance(background(element))];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < 4.5) low.push(`${element.textContent}: ${contrast.toFixed(2)}`);
}
return low;
