// SPDX-License-Identifier: MIT
// The machine's battery: what rivulet-sim writes into a page of memory (--battery, docs/battery.md).
// No memory is initialised here: without the magic word there is no battery.
DefinitionBlock ("battery.aml", "SSDT", 2, "RIVULT", "BATTERY", 1)
{
    Scope (\_SB)
    {
        Device (BAT0)
        {
            Name (_HID, EisaId ("PNP0C0A"))
            Name (_UID, Zero)

            // struct rvl_battery_page of sim/battery.h; the address is --battery's at=.
            OperationRegion (PAGE, SystemMemory, 0x20000000, 0x28)
            Field (PAGE, DWordAcc, NoLock, Preserve)
            {
                MAGC, 32,
                STAT, 32,
                RATE, 32,
                LEFT, 32,
                VOLT, 32,
                DESG, 32,
                FULL, 32,
                WARN, 32,
                LOWC, 32,
                DVLT, 32,
            }

            Method (_STA, 0, NotSerialized)
            {
                If (LEqual (MAGC, 0x54414252))
                {
                    Return (0x1F)
                }
                Return (Zero)
            }

            Name (INFO, Package (0x0D)
            {
                Zero,           // in mWh and mW
                0xFFFFFFFF,     // design capacity
                0xFFFFFFFF,     // last full charge
                One,            // rechargeable
                0xFFFFFFFF,     // design voltage
                Zero,           // warning
                Zero,           // low
                One,            // granularity
                One,
                "rivulet-sim",
                "0",
                "LION",
                "Rivulet"
            })
            Method (_BIF, 0, Serialized)
            {
                Store (DESG, Index (INFO, One))
                Store (FULL, Index (INFO, 0x02))
                Store (DVLT, Index (INFO, 0x04))
                Store (WARN, Index (INFO, 0x05))
                Store (LOWC, Index (INFO, 0x06))
                Return (INFO)
            }

            Name (NOW, Package (0x04) { Zero, Zero, Zero, Zero })
            Method (_BST, 0, Serialized)
            {
                Store (STAT, Index (NOW, Zero))
                Store (RATE, Index (NOW, One))
                Store (LEFT, Index (NOW, 0x02))
                Store (VOLT, Index (NOW, 0x03))
                Return (NOW)
            }

            Method (_PCL, 0, NotSerialized)
            {
                Return (\_SB)
            }
        }
    }
}
