// SPDX-License-Identifier: MIT
// The program under test: commands that end by themselves, and workers that run
// until they have drained their queues or are killed.
'use strict';

const {spawn} = require('child_process');
const fs = require('fs');
const path = require('path');
const secrets = require('./secrets');
const {within} = require('./wait');

const COMMAND_LIMIT_MS = 120000;

class Program {
  // file: the program; folder: its working directory, with its configuration.
  constructor(file, folder) {
    this.under = (process.env.TABLEWARD_UNDER || '').split(' ')
        .filter((word) => word !== '');
    this.file = file;
    this.folder = folder;
    this.children = new Set();
  }

  // configure: writes a configuration (JSON is YAML); returns its path.
  configure(configuration, name = 'tableward.yaml') {
    const file = path.join(this.folder, name);
    fs.writeFileSync(file, typeof configuration === 'string' ?
        configuration : JSON.stringify(configuration, null, 2));
    return file;
  }

  // start: starts a process; returns {child, exit (a promise of {code,
  // signal}), out, log, kill()}.
  start(args, {input, env} = {}) {
    const [file, ...words] = [...this.under, this.file, ...args];
    const child = spawn(file, words, {
      cwd: this.folder, env: {...process.env, ...env},
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    this.children.add(child);
    const running = {child, out: '', log: '', kill: (s) => child.kill(s)};
    child.stdout.setEncoding('utf8').on('data', (t) => (running.out += t));
    child.stderr.setEncoding('utf8').on('data', (t) => (running.log += t));
    running.exit = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        this.children.delete(child);
        if (process.env.E2E_LOGS && words.includes('worker'))
          fs.writeFileSync(path.join(process.env.E2E_LOGS,
              `${path.basename(this.folder)}-${child.pid}.log`), running.log);
        running.over = true;
        secrets.search(words.join(' '), running.out, running.log,
            words.join(' '));
        resolve({code, signal});
      });
    });
    running.exit.catch(() => {});
    if (input !== undefined) {
      child.stdin.on('error', () => {}); // it may end without reading its input
      child.stdin.end(input);
    }
    return running;
  }

  // run: runs a command to its end; returns {code, signal, out, log}.
  async run(args, options = {}) {
    const running = this.start(args, options);
    const end = await this.end(running, options.limit_ms);
    return {...end, out: running.out, log: running.log};
  }

  // end: waits for the end of a started process; returns {code, signal}. If it
  // does not end within limit_ms, kills it and throws.
  async end(running, limit_ms = COMMAND_LIMIT_MS) {
    try {
      return await within(
          running.child.spawnargs.slice(1).join(' '), running.exit, limit_ms);
    } catch (error) {
      running.kill('SIGKILL');
      error.message += `\n${tail(running.log)}`;
      throw error;
    }
  }

  // ok: like run, but throws, with the end of the log, unless the exit code is
  // options.code (default 0).
  async ok(args, options = {}) {
    const ended = await this.run(args, options);
    const wanted = options.code || 0;
    if (ended.code !== wanted)
      throw new Error(`${args.join(' ')}: exit ${ended.code ?? ended.signal}` +
          `, not ${wanted}\n${tail(ended.log)}`);
    return ended;
  }

  stop() {
    for (const child of this.children) child.kill('SIGKILL');
  }
}

const tail = (text) => text.split('\n').slice(-15).join('\n');

module.exports = {Program, tail};
