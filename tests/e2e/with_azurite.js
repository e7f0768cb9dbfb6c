// SPDX-License-Identifier: MIT
// node with_azurite.js COMMAND [ARGUMENT ...]: starts an Azurite, runs the
// command with TABLEWARD_AZURITE set to its connection string, and stops the
// Azurite. If AZSIM names the program azsim, also starts an azsim, whose
// connection string is in TABLEWARD_AZSIM.
'use strict';

const {spawnSync} = require('child_process');
const {Azsim} = require('./lib/azsim');
const {Azurite, connection_string} = require('./lib/azurite');

const string_of = (service) => connection_string(service.account(),
    service.key, service.table_port, service.queue_port);

async function main() {
  const azurite = await Azurite.start(process.env.E2E_MODULES);
  const azsim = process.env.AZSIM && await Azsim.start(process.env.AZSIM);
  const {status} = spawnSync(process.argv[2], process.argv.slice(3), {
    stdio: 'inherit',
    env: {
      ...process.env,
      TABLEWARD_AZURITE: string_of(azurite),
      ...(azsim ? {TABLEWARD_AZSIM: string_of(azsim)} : {}),
    },
  });
  await azurite.stop();
  if (azsim) await azsim.stop();
  process.exit(status === null ? 1 : status);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
