// SPDX-License-Identifier: MIT
// Chromium without a window, for the dashboard: Debian's, driven by
// puppeteer-core, with a profile that is thrown away.
'use strict';

const fs = require('fs');
const path = require('path');
const puppeteer = require('puppeteer-core');

const CHROMIUM = process.env.CHROMIUM || '/usr/bin/chromium';
// Below build/, beside the npm packages.
const SHOTS = path.join(process.env.E2E_MODULES, '..', '..', 'screenshots');
const WIDE = {width: 1280, height: 900};
const NARROW = {width: 390, height: 844, isMobile: true, hasTouch: true};

class Browser {
  // start: folder holds the profile.
  static async start(folder) {
    const browser = new Browser();
    browser.chromium = await puppeteer.launch({
      executablePath: CHROMIUM, userDataDir: path.join(folder, 'chromium'),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
    return browser;
  }

  // page: a tab of its own, with errors (what the console and the page said)
  // and a storage of its own.
  async page({view = WIDE, dark = false} = {}) {
    const context = await this.chromium.createBrowserContext();
    const page = await context.newPage();
    page.errors = [];
    page.on('pageerror', (error) => page.errors.push(error.message));
    page.on('console', (line) =>
      line.type() === 'error' && page.errors.push(line.text()));
    await page.setViewport(view);
    await page.emulateMediaFeatures([
      {name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]);
    return page;
  }

  async stop() {
    await this.chromium.close();
  }
}

// shot: the whole page as build/screenshots/NAME.png, to be looked at.
async function shot(page, name) {
  fs.mkdirSync(SHOTS, {recursive: true});
  await page.screenshot({path: path.join(SHOTS, `${name}.png`), fullPage: true});
}

// violations: what axe-core finds, a line each.
async function violations(page) {
  await page.evaluate(fs.readFileSync(require.resolve('axe-core'), 'utf8'));
  const {violations: all} = await page.evaluate(() => window.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa',
      'best-practice'],
  }));
  return all.map((v) => `${v.id}: ${v.help}: ` +
      v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | '));
}

module.exports = {Browser, shot, violations, WIDE, NARROW};
