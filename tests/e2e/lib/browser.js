// SPDX-License-Identifier: MIT
// Headless Chromium for the dashboard: Debian's, driven by puppeteer-core, with
// a temporary profile.
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
  // start: starts a browser whose profile is in `folder`.
  static async start(folder) {
    const browser = new Browser();
    browser.chromium = await puppeteer.launch({
      executablePath: CHROMIUM, userDataDir: path.join(folder, 'chromium'),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
    return browser;
  }

  // page: opens a tab with its own storage; page.errors: what the console and
  // the page reported.
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

// shot: saves the whole page as build/screenshots/NAME.png, to be viewed.
async function shot(page, name) {
  fs.mkdirSync(SHOTS, {recursive: true});
  await page.screenshot({path: path.join(SHOTS, `${name}.png`), fullPage: true});
}

// violations: returns what axe-core finds, one text for each rule.
async function violations(page) {
  await page.evaluate(fs.readFileSync(require.resolve('axe-core'), 'utf8'));
  const {violations: all} = await page.evaluate(() => window.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa',
      'best-practice'],
  }));
  return all.map((v) => `${v.id}: ${v.help}: ` +
      v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | '));
}

module.exports = {Browser, shot, violations, NARROW};
